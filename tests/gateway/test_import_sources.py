"""What a source holds is read off its content: every shape tools are written in, and none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from breadcrumbs.errors import CatalogError
from breadcrumbs.gateway.catalog import Risk
from breadcrumbs.gateway.imports import sources
from breadcrumbs.gateway.imports.definitions import find_definitions
from breadcrumbs.gateway.imports.drafts import Draft, Refusal
from breadcrumbs.gateway.imports.importing import import_drafts
from breadcrumbs.gateway.imports.openapi import find_operations
from breadcrumbs.gateway.imports.sources import read_source

FIELDS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
MCP = {"name": "get_weather", "description": "Say the weather.", "inputSchema": FIELDS}
SNAKE = {"name": "get_weather", "description": "Say the weather.", "input_schema": FIELDS}
BFCL = {
    "name": "get_weather",
    "description": "Say the weather.",
    "parameters": {**FIELDS, "type": "dict"},
    "response": {},
}
OPENAI = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Say the weather.",
        "parameters": FIELDS,
        "strict": True,
    },
}
RESPONSES = {
    "type": "function",
    "name": "get_weather",
    "description": "Say the weather.",
    "parameters": FIELDS,
}


def write(folder: Path, name: str, value: Any) -> Path:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def only_draft(path: Path) -> Draft:
    (draft,) = read_source(path)
    assert isinstance(draft, Draft), draft
    return draft


@pytest.mark.parametrize(
    "value",
    [
        MCP,
        [MCP],
        {"tools": [MCP]},
        {"jsonrpc": "2.0", "id": 1, "result": {"tools": [MCP], "nextCursor": "x"}},
        SNAKE,
        OPENAI,
        [OPENAI],
        {"model": "m", "messages": [], "tools": [OPENAI]},
        {"functions": [OPENAI["function"]]},
        RESPONSES,
        BFCL,
        [BFCL],
        {"id": "live_1", "question": [[]], "function": [BFCL]},
        {"tools": [{**MCP, "title": "Weather", "outputSchema": {}, "icons": [], "_meta": {}}]},
        yaml.safe_dump({"tools": [MCP]}),
        "\n\n" + json.dumps(MCP) + "\n",
        json.dumps({"tools": [MCP]}, indent=2),
    ],
)
def test_one_tool_in_every_shape(tmp_path: Path, value: Any) -> None:
    path = write(tmp_path, "Weather Tools.txt", value)
    draft = only_draft(path)
    assert (draft.name, draft.description, draft.domain) == (
        "get_weather",
        "Say the weather.",
        "weather_tools",
    )
    assert str(path) in draft.source
    (tool,) = import_drafts([draft]).tools
    assert dict(tool.spec.input_schema) == {**FIELDS, "additionalProperties": False}
    assert tool.spec.risk is Risk.WRITE


@pytest.mark.parametrize(
    "rows",
    [
        [MCP, BFCL],
        [{"server": "My Server", "tools": [MCP, BFCL]}, {"tools": []}],
        [{"function": [MCP]}, {"function": [BFCL]}],
    ],
)
def test_json_lines(tmp_path: Path, rows: list[Any]) -> None:
    drafts = list(
        read_source(write(tmp_path, "rows.jsonl", "\n".join(map(json.dumps, rows)) + "\n\n"))
    )
    assert [draft.name for draft in drafts if isinstance(draft, Draft)] == ["get_weather"] * 2
    assert len(drafts) == 2
    expected = "my_server" if "server" in rows[0] else "rows"
    assert {draft.domain for draft in drafts if isinstance(draft, Draft)} == {expected}


def test_a_bad_line_is_refused_alone(tmp_path: Path) -> None:
    lines = [
        json.dumps(MCP),
        '{"name": "a", "name": "b", "parameters": {}}',
        json.dumps(BFCL),
        "{broken}",
    ]
    found = list(read_source(write(tmp_path, "rows.json", "\n".join(lines))))
    assert [type(item) for item in found] == [Draft, Refusal, Draft, Refusal]
    assert isinstance(found[1], Refusal)
    assert found[1].tool.endswith("rows.json:2")
    assert "stands twice" in found[1].reason


def test_line_separators_inside_text_do_not_split_lines(tmp_path: Path) -> None:
    row = {**MCP, "description": "one\u2028two\x85three"}
    text = "\n".join([json.dumps(row, ensure_ascii=False)] * 2)
    assert all(isinstance(item, Draft) for item in read_source(write(tmp_path, "rows.jsonl", text)))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"hello": "world"}, "no tool definition .keys: hello"),
        ([{"name": "x", "description": "no schema"}], "needs inputSchema or parameters"),
        ({"tools": [{"type": "web_search"}]}, "a hosted tool .'web_search'. has no schema"),
        ({"tools": ["get_weather"]}, "text, not a tool definition"),
        ([3], "a number, not a tool definition"),
        ("just words", "text, not a tool definition"),
        ("{}\n{}", "no tool in any of its 2 lines"),
        ({"mcpServers": {"a": {}}}, "either command or url"),
    ],
)
def test_what_is_no_tool_is_refused_and_not_passed_over(
    tmp_path: Path, value: Any, says: str
) -> None:
    (refusal,) = read_source(write(tmp_path, "x.json", value))
    assert isinstance(refusal, Refusal)
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(refusal.reason)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.json", "{", "not valid JSON"),
        ("a.json", '{"tools": [], "tools": []}', "stands twice"),
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.json", '{"swagger": "2.0", "paths": {}}', "convert it to OpenAPI 3"),
        ("a.json", '{"openapi": "3.1.0", "paths": []}', "paths is list"),
        ("a.json", '{"mcpServers": []}', "mcpServers must map"),
        (
            "a.yaml",
            "version: 1\ndomain: x\ntools: [{name: a}]",
            "key 'tools.0.description' is missing",
        ),
    ],
)
def test_a_broken_file_stops_the_import_by_name_but_only_where_it_was_named(
    tmp_path: Path, name: str, text: str, says: str
) -> None:
    path = write(tmp_path, name, text)
    with pytest.raises(CatalogError, match=says) as caught:
        list(read_source(path))
    assert str(path) in str(caught.value)
    write(tmp_path, "fine.json", MCP)
    refusal, draft = read_source(tmp_path)
    assert isinstance(refusal, Refusal)
    assert isinstance(draft, Draft)
    assert refusal.tool == name


def test_one_tool_a_file_belongs_to_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "Tide Desk"
    folder.mkdir()
    for name in ("get_tide", "add_tide"):
        write(folder, f"{name}.json", {"name": name, "inputSchema": {}})
    write(folder, "port.json", {"tools": [{"name": "open_port", "inputSchema": {}}]})
    found = {d.name: d.domain for d in read_source(folder) if isinstance(d, Draft)}
    assert found == {"get_tide": "tide_desk", "add_tide": "tide_desk", "open_port": "port"}


def test_a_folder_starts_no_server(tmp_path: Path) -> None:
    mark = tmp_path / "started"
    write(tmp_path, "mcp.json", {"mcpServers": {"a": {"command": "touch", "args": [str(mark)]}}})
    (refusal,) = read_source(tmp_path)
    assert isinstance(refusal, Refusal)
    assert "only where their file is named itself" in refusal.reason
    assert not mark.exists()
    list(read_source(tmp_path / "mcp.json", timeout_s=5))
    assert mark.exists()  # the negative control: named itself, it is started


def test_hints_come_from_annotations_and_a_dump_has_no_label_of_its_own(tmp_path: Path) -> None:
    def hint(**extra: Any) -> Risk | None:
        draft = only_draft(write(tmp_path, "x.json", {**MCP, **extra}))
        assert draft.own is None
        return draft.hint

    assert hint() is None
    assert hint(annotations={"readOnlyHint": True}) is Risk.READ
    assert hint(annotations={"readOnlyHint": False}) is Risk.WRITE
    assert hint(annotations={"readOnlyHint": True, "destructiveHint": True}) is Risk.DESTRUCTIVE
    assert hint(annotations={"readOnlyHint": "yes"}) is None
    assert hint(annotations=[]) is None
    assert hint(risk="destructive") is Risk.DESTRUCTIVE
    assert hint(risk="harmless") is None
    assert hint(risk="read", annotations={"destructiveHint": True}) is Risk.DESTRUCTIVE


API: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Pet Store", "version": "1"},
    "paths": {
        "/pets/{petId}": {
            "parameters": [{"$ref": "#/components/parameters/petId"}],
            "get": {
                "operationId": "pets/show",
                "summary": "Show a pet",
                "parameters": [
                    {
                        "name": "verbose",
                        "in": "query",
                        "schema": {"type": "boolean", "default": False},
                    },
                    {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
                ],
            },
            "delete": {"description": "Remove a pet", "summary": "Remove a pet"},
            "put": {
                "operationId": "replacePet",
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}
                    },
                },
            },
        },
        "/pets": {
            "post": {
                "operationId": "addPets",
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json; charset=utf-8": {
                            "schema": {
                                "type": "array",
                                "items": {"$ref": "#/components/schemas/Pet"},
                            }
                        }
                    },
                },
            },
            "patch": {
                "operationId": "bad",
                "requestBody": {
                    "content": {
                        "application/json": {"schema": {"$ref": "https://example.invalid/pet"}}
                    }
                },
            },
            "get": {
                "operationId": "tree",
                "parameters": [
                    {
                        "name": "t",
                        "in": "query",
                        "content": {
                            "application/json": {"schema": {"$ref": "#/components/schemas/Tree"}}
                        },
                    }
                ],
            },
        },
        "/photo/{id}": {
            "post": {
                "operationId": "photo",
                "parameters": [
                    {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
                ],
                "requestBody": {"content": {"image/png": {}}},
            }
        },
        "/clash/{name}": {
            "post": {
                "operationId": "clash",
                "parameters": [
                    {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
                ],
                "requestBody": {
                    "content": {
                        "multipart/form-data": {"schema": {"$ref": "#/components/schemas/Pet"}}
                    }
                },
            }
        },
        "/broken": 3,
    },
    "components": {
        "parameters": {
            "petId": {
                "name": "petId",
                "in": "path",
                "required": True,
                "description": "Which pet",
                "schema": {"type": "integer"},
            }
        },
        "schemas": {
            "Pet": {
                "type": "object",
                "required": ["name", "id"],
                "properties": {
                    "id": {"type": "integer", "readOnly": True},
                    "name": {"type": "string", "nullable": True},
                    "kind": {"$ref": "#/components/schemas/Kind"},
                },
            },
            "Kind": {"type": "string", "enum": ["cat", "dog"]},
            "Tree": {
                "type": "object",
                "properties": {"left": {"$ref": "#/components/schemas/Tree"}},
            },
        },
    },
}


@pytest.mark.parametrize("text", [json.dumps(API), yaml.safe_dump(API)])
def test_openapi(tmp_path: Path, text: str) -> None:
    report = import_drafts(read_source(write(tmp_path, "api", text)))
    tools = {tool.spec.name: tool.spec for tool in report.tools}
    assert set(tools) == {
        "pets_show",
        "delete_pets_petId",
        "replacePet",
        "addPets",
        "photo",
        "clash",
    }
    assert {spec.domain for spec in tools.values()} == {"pet_store"}
    show = tools["pets_show"]
    assert show.description == "Show a pet"
    assert show.required == ("petId",)
    assert show.input_schema["properties"] == {
        "petId": {"type": "integer", "description": "Which pet"},
        "verbose": {"type": "boolean", "default": False},
    }
    assert tools["delete_pets_petId"].description == "Remove a pet"
    replace = tools["replacePet"]
    assert replace.required == ("petId", "name")
    assert replace.input_schema["properties"]["name"] == {"type": ["string", "null"]}
    assert replace.input_schema["properties"]["kind"] == {"type": "string", "enum": ["cat", "dog"]}
    assert "id" not in replace.input_schema["properties"]
    assert tools["addPets"].required == ("body",)
    assert tools["addPets"].input_schema["properties"]["body"]["type"] == "array"
    assert set(tools["photo"].input_schema["properties"]) == {"id", "body"}
    assert set(tools["clash"].input_schema["properties"]) == {"name", "body"}
    risks = {name: spec.risk for name, spec in tools.items()}
    assert risks.pop("delete_pets_petId") is Risk.DESTRUCTIVE
    assert set(risks.values()) == {Risk.WRITE}  # GET too: a hint may only raise
    refused = {refusal.tool: refusal.reason for refusal in report.refused}
    assert set(refused) == {"bad", "tree", "/broken"}
    assert "remote" in refused["bad"]
    assert "holds itself" in refused["tree"]


ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["object", "#/paths", "function", "get"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "tools",
                    "function",
                    "functions",
                    "result",
                    "name",
                    "type",
                    "description",
                    "parameters",
                    "inputSchema",
                    "annotations",
                    "properties",
                    "$ref",
                    "server",
                    "paths",
                    "/a",
                    "get",
                    "requestBody",
                    "content",
                    "application/json",
                    "schema",
                    "required",
                    "in",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(ODD)
def test_no_value_does_anything_but_import_or_be_refused(value: Any) -> None:
    report = import_drafts(find_definitions(value, "x", "x"))
    assert json.dumps(report.to_dict())
    try:
        report = import_drafts(find_operations({"openapi": "3.1.0", "paths": value}, "x", "x"))
    except CatalogError:
        return
    assert json.dumps(report.to_dict())


def test_a_file_over_the_bound_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tools.json").write_text('[{"name": "a"}]', encoding="utf-8")
    assert list(read_source(tmp_path / "tools.json"))
    monkeypatch.setattr(sources, "MAX_FILE_BYTES", 14)
    with pytest.raises(CatalogError, match="over 14 bytes"):
        list(read_source(tmp_path / "tools.json"))
