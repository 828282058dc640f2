"""Argument schemas as the world writes them: normalised into one shape, or refused with a reason."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from breadcrumbs.errors import CatalogError
from breadcrumbs.gateway.catalog import Risk, ToolSpec, compile_schema, load_catalog
from breadcrumbs.gateway.imports.schema_checks import MAX_BYTES
from breadcrumbs.gateway.imports.schemas import (
    MAX_DEPTH,
    MAX_PROPERTIES,
    MAX_UNEVALUATED,
    _Walk,
    normalise,
)
from breadcrumbs.gateway.imports.writing import write_catalog


def argument(schema: Any) -> Any:
    """What one argument's schema becomes."""
    return normalise({"type": "object", "properties": {"x": schema}}).schema["properties"]["x"]


@pytest.mark.parametrize(
    ("written", "shaped"),
    [
        ("float", {"type": "number"}),
        ({"type": "dict"}, {"type": "object"}),
        ({"type": "any"}, {}),
        ({"type": "Integer"}, {"type": "integer"}),
        ({"type": "string|null"}, {"type": ["string", "null"]}),
        ({"type": "int or str"}, {"type": ["integer", "string"]}),
        ({"type": ["str", "int", "float"]}, {"type": ["string", "integer", "number"]}),
        ({"type": ["string", "any"]}, {}),
        ({"type": "list[int]"}, {"type": "array", "items": {"type": "integer"}}),
        ({"type": "array<dict>"}, {"type": "array", "items": {"type": "object"}}),
        ({"type": "dict[str, int]"}, {"type": "object"}),
        (
            {"type": "tuple", "items": {"type": "float"}},
            {"type": "array", "items": {"type": "number"}},
        ),
        (
            {"type": "array", "items": [{"type": "int"}, "str"]},
            {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]},
        ),
        (
            {"properties": {"a": True, "b": False}},
            {"type": "object", "properties": {"a": {}, "b": {"not": {}}}},
        ),
        (
            {"type": "number", "minimum": 0, "exclusiveMinimum": True},
            {"type": "number", "exclusiveMinimum": 0},
        ),
        (
            {"type": "number", "maximum": 9, "exclusiveMaximum": False},
            {"type": "number", "maximum": 9},
        ),
        (
            {"type": "string", "nullable": True, "enum": ["a"]},
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        ({"type": "string", "example": "a"}, {"type": "string", "examples": ["a"]}),
        ({"type": "integer", "maximum": 2**63}, {"type": "integer"}),
        ({"type": "string", "x-order": 3, "xml": {}, "$comment": "c"}, {"type": "string"}),
        (
            {
                "type": "array",
                "items": {"type": "object", "required": ["k"], "properties": {"k": "str"}},
            },
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"k": {"type": "string"}},
                    "required": ["k"],
                },
            },
        ),
    ],
)
def test_one_argument(written: Any, shaped: Any) -> None:
    assert argument(written) == shaped
    assert argument(shaped) == shaped


def test_required_is_one_list_whoever_says_so() -> None:
    schema = normalise(
        {
            "type": "dict",
            "properties": {
                "a": {"type": "int, optional"},
                "b": {"type": "string", "required": True},
                "c": {"type": "string", "optional": True},
                "d": "str?",
                "e": {"type": "string", "required": False},
                "f": {"type": "Optional[int]"},
                "g": {"type": "string"},
            },
            "required": ["a", "c", "d", "e", "f", "g", "g"],
        }
    ).schema
    assert schema["required"] == ["g", "b"]
    assert list(schema["properties"]) == ["g", "b", "a", "c", "d", "e", "f"]
    assert schema["properties"]["f"] == {"type": "integer"}


@pytest.mark.parametrize(
    "nothing",
    [
        None,
        {},
        {"type": "object"},
        {"type": "object", "properties": {}},
        {"type": ["object", "null"], "title": "Args"},
    ],
)
def test_no_arguments(nothing: Any) -> None:
    assert normalise(nothing).schema == {
        "type": "object",
        "required": [],
        "properties": {},
        "additionalProperties": False,
    }


def test_a_required_name_without_a_schema_takes_anything_and_is_noted() -> None:
    normalised = normalise({"type": "object", "required": ["who"]})
    assert normalised.schema["properties"] == {"who": {}}
    assert normalised.notes == ("required 'who' had no schema; it takes any value",)


def test_objects_stay_open_only_where_closing_would_refuse_a_real_argument() -> None:
    one = {"properties": {"a": {"type": "string"}}}
    assert normalise(one).schema["additionalProperties"] is False
    assert normalise({**one, "additionalProperties": True}).schema["additionalProperties"] is True
    assert (
        normalise({**one, "anyOf": [{"required": ["a"]}]}).schema["additionalProperties"] is False
    )
    either = normalise({"anyOf": [one, {"properties": {"b": {"type": "string"}}}]}).schema
    assert either["additionalProperties"] is True
    assert compile_schema(either).is_valid({"b": "x"})
    assert normalise({"patternProperties": {"^x": {}}}).schema["additionalProperties"] is True


def test_local_references_are_written_out() -> None:
    raw = {
        "type": "object",
        "properties": {
            "home": {"$ref": "#/$defs/place", "description": "Where"},
            "work": {"$ref": "#/$defs/place", "required": ["city"]},
            "odd": {"$ref": "#/$defs/a~1b%20c"},
            "second": {"$ref": "#/$defs/list/1"},
        },
        "$defs": {
            "place": {
                "type": "object",
                "description": "A place",
                "properties": {"city": {"$ref": "#/$defs/name"}},
            },
            "name": {"type": "str"},
            "a/b c": {"type": "bool"},
            "list": ["int", "float"],
        },
    }
    schema = normalise(raw).schema
    city = {"city": {"type": "string"}}
    assert schema["properties"] == {
        "home": {"type": "object", "description": "Where", "properties": city},
        "work": {
            "required": ["city"],
            "allOf": [{"type": "object", "description": "A place", "properties": city}],
        },
        "odd": {"type": "boolean"},
        "second": {"type": "number"},
    }
    assert "$defs" not in schema


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"x": schema}}
    return schema


def doubling(levels: int) -> dict[str, Any]:
    """Each definition names the one before it twice: 2^levels subschemas from a short text."""
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for level in range(levels):
        inner = {"$ref": f"#/$defs/d{level}"}
        definitions[f"d{level + 1}"] = {"anyOf": [inner, inner]}
    return {"properties": {"x": {"$ref": f"#/$defs/d{levels}"}}, "$defs": definitions}


def unevaluated(levels: int) -> dict[str, Any]:
    """To ask at 30 levels whether `{}` fits takes minutes: each asks the one below it twice."""
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    return {"properties": {"x": schema, "y": schema}}


TREE = {
    "properties": {"tree": {"$ref": "#/$defs/node"}},
    "$defs": {
        "node": {"properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}
    },
}


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (TREE, "holds itself: .*node"),
        ({"$ref": "#"}, "holds itself"),
        (
            {"properties": {"x": {"$ref": "#/properties/y"}, "y": {"$ref": "#/properties/x"}}},
            "holds itself",
        ),
        (
            {"properties": {"x": {"$ref": "https://example.invalid/x.json"}}},
            "is remote and is not fetched",
        ),
        ({"properties": {"x": {"$ref": "other.json#/x"}}}, "is remote"),
        ({"properties": {"x": {"$ref": "file:///etc/passwd"}}}, "is remote"),
        ({"properties": {"x": {"$ref": "#place"}}}, "names an anchor"),
        ({"properties": {"x": {"$ref": "#/$defs/gone"}}}, "points to nothing"),
        ({"properties": {"x": {"$ref": 3}}}, "is not text"),
        (
            {"properties": {"x": {"$ref": "#/anyOf/" + "9" * 5000}}, "anyOf": [{}]},
            "points to nothing",
        ),
        (unevaluated(MAX_UNEVALUATED + 1), f"more than {MAX_UNEVALUATED} unevaluated"),
        ({"properties": {"x": {"$dynamicRef": "#node"}}}, "cannot be written out"),
        (nested(MAX_DEPTH), f"deeper than {MAX_DEPTH}"),
        (doubling(14), "more than 1[0-9]{3} subschemas"),
        ({"anyOf": [{"type": "string"}] * 10_000}, "more than 10000 subschemas"),
        (
            {"properties": {f"p{n}": {} for n in range(MAX_PROPERTIES + 1)}},
            f"at most {MAX_PROPERTIES}",
        ),
        ({"properties": {"x": {"enum": ["y" * MAX_BYTES]}}}, "bytes, references written out"),
        ({"properties": {"x": {"pattern": r"^(?=.*\d)(?!.*\s).{8,}$"}}}, "looks around"),
        ({"properties": {"x": {"pattern": r"(a+)\1"}}}, "refers back"),
        ({"properties": {"x": {"pattern": "(a{1000}){1000}"}}}, "too large"),
        ({"properties": {"x": {"pattern": "[a-"}}}, "is broken"),
        ({"properties": {"x": {"pattern": "a" * 1_001}}}, "1001 characters"),
        ({"properties": {"x": {"patternProperties": {"(?=a)": {}}}}}, "looks around"),
        ({"properties": {"x": {"type": "integre"}}}, "type 'integre' is unknown"),
        ({"properties": {"x": {"type": {"type": "string"}}}}, "type is dict"),
        ({"properties": {"x": {"type": []}}}, "type is list"),
        ({"properties": {"x": {"type": "x" * 999}}}, "999 characters"),
        ({"properties": {"x": {"enum": []}}}, "enum at properties/x is empty"),
        (
            {"properties": {"x": {"minLength": "a"}}},
            "no valid JSON Schema at properties/x/minLength",
        ),
        ({"properties": {"x": {"minimum": 2**53}}}, "not canonical JSON"),
        ({"properties": {"x": {"const": 2**53}}}, "not canonical JSON"),
        ({"properties": {"x": 3}}, "properties/x is int, not a schema"),
        ({"properties": [1]}, "properties is list"),
        ({"anyOf": {}}, "anyOf is dict"),
        ({"required": "x"}, "required at the root is not a list"),
        ({"required": [1]}, "required at the root is not a list"),
        ({"type": "string"}, "a tool takes an object"),
        ({"type": "array"}, "a tool takes an object"),
        ([], "the root is list"),
        ({"properties": {"x'}) and then": {}}}, "use letters, digits"),
        ({"properties": {"two\nlines": {}}}, "use letters, digits"),
        ({"properties": {"": {}}}, "use letters, digits"),
        ({"required": ["a b"]}, "use letters, digits"),
    ],
)
def test_refused_with_a_reason(raw: Any, says: str) -> None:
    with pytest.raises(CatalogError, match=says) as caught:
        normalise(raw)
    assert len(str(caught.value)) < 250
    assert "\n" not in str(caught.value)


def test_the_bounds_let_through_what_lies_just_inside() -> None:
    """The negative control: what is refused above is refused for its size, not for its form."""
    assert normalise(nested(MAX_DEPTH - 1))
    assert normalise(doubling(8))
    assert normalise({"anyOf": [{"type": "string"}] * 9_000})
    assert normalise({"$ref": "#/x"}, {"x": doubling(9), "$defs": doubling(9)["$defs"]})
    assert normalise(unevaluated(MAX_UNEVALUATED))
    assert normalise({"properties": {f"p{n}": {} for n in range(MAX_PROPERTIES)}})
    assert argument({"pattern": "^(a+)+$"})
    assert argument({"maximum": 2**53 - 1}) == {"maximum": 2**53 - 1}
    # All of these are schemas to a validator that does not ask what they cost.
    for raw in (TREE, {"pattern": r"(?=a)b"}, {"enum": []}, {"const": 2**53}):
        jsonschema_rs.Draft202012Validator(raw)


@pytest.mark.parametrize(
    "part",
    [
        {"enum": ["y" * 600_000]},
        {"properties": {"y" * 600_000: {}}},
        {"type": ["string"] * 100_000},
        {f"x{number}": 0 for number in range(300_000)},  # unknown words, passed over one by one
    ],
    ids=["value", "name", "types", "unknown"],
)
def test_large_parts_named_often_are_never_written_out(part: dict[str, Any]) -> None:
    """Written out they are gigabytes; the walk ends at the first that is too large."""
    everywhere = {"allOf": [{"$ref": "#/$defs/part"}] * 9_000}
    with pytest.raises(CatalogError, match="over 262144 bytes"):
        normalise({"properties": {"x": everywhere}, "$defs": {"part": part}})


def test_a_long_name_is_not_in_every_path_below_it() -> None:
    """Whole paths of 9 000 subschemas under it would be 2 GB of copying; none is kept whole."""
    walk = _Walk({})
    paths: list[str] = []
    kept = walk.schema

    def seen(raw: Any, path: str, depth: int, inside: tuple[str, ...]) -> dict[str, Any]:
        paths.append(path)
        return kept(raw, path, depth, inside)

    walk.schema = seen  # type: ignore[method-assign]
    walk.schema({"properties": {"y" * 200_000: {"allOf": [{}] * 9}}}, "", 1, ())
    assert len(paths) == 11
    assert max(map(len, paths)) <= 128


def test_defaults_that_break_their_own_schema_are_left_out_and_noted() -> None:
    raw = {
        "properties": {
            "size": {"type": "integer", "default": "big"},
            "color": {"type": "string", "default": None},
            "day": {"type": "string", "format": "date", "default": "soon"},
            "when": {"type": "string", "format": "date-time", "default": "2026-01-05T09:00"},
            "count": {"type": "integer", "default": 3},
            "tag": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        }
    }
    normalised = normalise(raw)
    kept = {name for name, inner in normalised.schema["properties"].items() if "default" in inner}
    assert kept == {"when", "count", "tag"}
    assert [note.split("'")[1] for note in normalised.notes] == ["color", "day", "size"]
    assert raw["properties"]["size"]["default"] == "big"  # what was given is not touched


@pytest.fixture
def counting_server() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = b'{"type": "string"}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/x.json", asked
        server.shutdown()
        thread.join()


def test_a_huge_default_is_left_out_without_listing_its_faults() -> None:
    """3 000 items under 1 000 rules each: as a list of faults half a minute and half a gigabyte."""
    rules = {"allOf": [{"minimum": 5}] * 1000}
    long = {"type": "array", "default": [1] * 3000, "items": rules}
    small = {"type": "array", "default": [6] * 3, "items": rules}
    normalised = normalise({"type": "object", "properties": {"long": long, "small": small}})
    properties = normalised.schema["properties"]
    assert ("default" in properties["long"], "default" in properties["small"]) == (False, True)
    assert normalised.notes == ("default of 'long' breaks its own schema or is long; left out",)


def test_nothing_is_fetched(counting_server: tuple[str, list[str]]) -> None:
    url, asked = counting_server
    remote = {"type": "object", "properties": {"x": {"$ref": url}}, "required": []}
    with pytest.raises(CatalogError, match="remote"):
        normalise(remote)
    with pytest.raises((jsonschema_rs.ValidationError, ValueError)):
        compile_schema(remote)
    assert asked == []
    jsonschema_rs.Draft202012Validator(remote)  # the negative control: a plain one asks the server
    assert asked == ["/x.json"]


NAMES = st.sampled_from(
    [
        "a",
        "b",
        "size",
        "$top",
        "filter[x]",
        "type",
        "properties",
        "required",
        "default",
        "items",
        "a b",
    ]
)
TYPES = st.sampled_from(
    [
        "string",
        "int",
        "dict",
        "float",
        "tuple",
        "any",
        "int, optional",
        "list[int]",
        "string|null",
        "bool?",
        ["str", "null"],
        "null",
        "nonsense",
    ]
)
VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**54), 2**54)
    | st.floats(-1e9, 1e9)
    | st.text(max_size=4)
)
REFERENCES = st.sampled_from(
    ["#/$defs/one", "#/$defs/two", "#/properties/a", "#", "#/nowhere", "http://example.invalid"]
)
LEAVES = st.one_of(
    TYPES.map(lambda kind: {"type": kind}),
    st.booleans(),
    TYPES,
    REFERENCES.map(lambda ref: {"$ref": ref}),
    VALUES.map(lambda value: {"default": value}),
)


def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES,
            "properties": st.dictionaries(NAMES, inner, max_size=4),
            "required": st.lists(NAMES, max_size=3) | st.booleans(),
            "items": inner | st.lists(inner, max_size=2),
            "additionalProperties": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=3),
            "allOf": st.lists(inner, max_size=2),
            "not": inner,
            "patternProperties": st.dictionaries(
                st.sampled_from(["^x", "(?=y)"]), inner, max_size=1
            ),
            "dependencies": st.dictionaries(
                NAMES, inner | st.lists(NAMES, max_size=2, unique=True), max_size=2
            ),
            "$defs": st.fixed_dictionaries({"one": inner, "two": inner}),
            "default": VALUES,
            "example": VALUES,
            "enum": st.lists(VALUES, max_size=3),
            "minimum": VALUES,
            "exclusiveMaximum": st.booleans() | st.integers(-5, 5),
            "maximum": st.integers(-5, 5),
            "nullable": st.booleans(),
            "optional": st.booleans(),
            "title": VALUES,
            "x-extra": VALUES,
        },
    )


SCHEMAS = st.recursive(LEAVES, grown, max_leaves=12)


def normalised_or_none(raw: Any) -> dict[str, Any] | None:
    try:
        return normalise(raw).schema
    except CatalogError:
        return None


@settings(max_examples=400)
@example({"properties": {"a": {"type": "any", "properties": {}}}})
@given(SCHEMAS)
def test_what_comes_out_is_a_schema_and_stays_as_it_is(raw: Any) -> None:
    before = json.dumps(raw)
    schema = normalised_or_none(raw)
    assert json.dumps(raw) == before
    if schema is None:
        return
    assert json.dumps(normalise(schema).schema) == json.dumps(schema)
    assert normalise(schema).notes == ()
    assert "$ref" not in json.dumps(schema)
    assert set(schema["required"]) <= set(schema["properties"])
    jsonschema_rs.meta.validate(schema)
    validator = compile_schema(schema)
    defaults = {
        name: inner["default"] for name, inner in schema["properties"].items() if "default" in inner
    }
    assert not [e for e in validator.iter_errors(defaults) if e.instance_path]


@settings(max_examples=60)
@example([{}], "one\x85two\u2028three\ufefffour\x07")
@given(st.lists(SCHEMAS, max_size=5), st.text(max_size=8))
def test_what_is_written_loads_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, raws: list[Any], text: str
) -> None:
    schemas = [schema for schema in map(normalised_or_none, raws) if schema is not None]
    specs = [
        ToolSpec(
            f"tool_{n}",
            text,
            schema,
            Risk.READ,
            "here",
            keywords=(text,),
            requires_approval=bool(n % 2),
        )
        for n, schema in enumerate(schemas)
    ]
    path: Path = tmp_path_factory.mktemp("written") / "tools.yaml"
    write_catalog(specs, path)
    assert list(load_catalog([path]).tools.values()) == specs


def test_the_catalogs_that_ship_are_in_shape_already() -> None:
    for spec in load_catalog().tools.values():
        normalised = normalise(spec.input_schema)
        assert json.dumps(normalised.schema) == json.dumps(spec.input_schema)
        assert normalised.notes == ()
