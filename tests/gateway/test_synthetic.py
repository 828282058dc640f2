"""Synthetic tools: as long as asked, the same each time, valid, and not what they are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breadcrumbs.errors import CatalogError
from breadcrumbs.gateway.catalog import Risk, load_catalog
from breadcrumbs.gateway.imports.importing import import_sources
from breadcrumbs.gateway.imports.lint import lint
from breadcrumbs.gateway.imports.writing import write_catalog
from breadcrumbs.gateway.schema_growth import add_fields, quarter_characters
from breadcrumbs.gateway.synthetic import _NAMES, synthetic_catalog, synthetic_tool
from breadcrumbs.messages import compact_json

LENGTHS = st.one_of(st.integers(100, 400), st.sampled_from([1_000, 4_000, 32_000]))


def words(text: str) -> int:
    """Another way to count: one token a run of letters, one each other mark."""
    return sum(1 for _ in _pieces(text))


def _pieces(text: str) -> Iterator[str]:
    import re

    return (found.group() for found in re.finditer(r"[A-Za-z]+|[0-9]+|[^\w\s]", text))


def kinds(schema: Any) -> set[str]:
    found = {
        key
        for key in schema
        if key in ("enum", "pattern", "format", "anyOf", "items", "default", "maximum")
    }
    found |= {schema["type"]} if "type" in schema else set()
    inner = [
        *schema.get("properties", {}).values(),
        *([schema["items"]] if "items" in schema else []),
    ]
    return found.union(*(kinds(part) for part in inner))


@given(seed=st.integers(0, 2**40), index=st.integers(0, 10**6), tokens=LENGTHS)
@settings(max_examples=60)
def test_a_tool_is_as_long_as_asked_and_valid(seed: int, index: int, tokens: int) -> None:
    spec = synthetic_tool(seed, index, tokens)
    assert tokens <= quarter_characters(compact_json(spec.input_schema)) <= tokens + 4
    fields = spec.input_schema["properties"]
    defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    faults = [fault for fault in spec.validator.iter_errors(defaults) if fault.instance_path]
    assert faults == []
    assert set(spec.required) <= set(fields)
    assert spec.requires_approval is (spec.risk is not Risk.READ)


@pytest.mark.parametrize("tokens", [200, 3_000])
def test_length_is_measured_as_asked(tokens: int) -> None:
    spec = synthetic_tool(0, 0, tokens, words)
    assert tokens <= words(compact_json(spec.input_schema)) <= tokens + 2
    assert quarter_characters(compact_json(spec.input_schema)) != tokens  # else it shows nothing


def test_seed_and_index_fix_a_tool_whatever_is_made_beside_it() -> None:
    whole = synthetic_catalog(50, seed=3, schema_tokens=150)
    for index in (49, 0, 7):
        alone = synthetic_tool(3, index, 150)
        assert whole.tools[alone.name].content_hash == alone.content_hash
    assert synthetic_tool(4, 7, 150).content_hash != synthetic_tool(3, 7, 150).content_hash


def test_this_tool_never_changes() -> None:
    """Written down, so that a change of the generator is seen: figures rest on these tools."""
    assert (
        synthetic_tool(0, 0, 100).content_hash
        == "e8765a223a567d4427407347b46ddbf2fd4b35a089e5f9f2a0c9559d50ff6c5a"
    )


def test_names_are_distinct_also_past_the_last_combination() -> None:
    around = [
        synthetic_tool(0, index, 100).name for index in (0, 1, _NAMES - 1, _NAMES, _NAMES + 1)
    ]
    assert len(set(around)) == 5
    assert len(synthetic_catalog(2_000, schema_tokens=100).tools) == 2_000


def test_schemas_are_as_varied_as_real_ones() -> None:
    spec = synthetic_tool(0, 0, 8_000)
    wanted = {"enum", "pattern", "format", "anyOf", "items", "default", "maximum"}
    wanted |= {"string", "integer", "number", "boolean", "array", "object"}
    assert wanted <= kinds(spec.input_schema)
    names = [
        name
        for field in spec.input_schema["properties"].values()
        if field.get("type") == "object"
        for name in field.get("properties", ())
    ]
    assert names  # nested


@pytest.mark.parametrize(("index", "tokens"), [(0, 99), (0, 32_001), (-1, 100)])
def test_out_of_bounds_is_refused(index: int, tokens: int) -> None:
    with pytest.raises(CatalogError, match="give 100 to 32000|from 0"):
        synthetic_tool(0, index, tokens)


def test_a_length_that_holds_nothing_is_refused() -> None:
    with pytest.raises(CatalogError, match="hold no schema"):
        synthetic_tool(0, 0, 100, len)


def test_they_are_catalog_tools_like_any(tmp_path: Path) -> None:
    """A written file loads back to the same tools, and lint finds nothing to mend."""
    made = synthetic_catalog(40, schema_tokens=600)
    path = tmp_path / "synthetic.yaml"
    write_catalog(list(made.tools.values()), path)
    loaded = load_catalog([path])
    assert {name: spec.content_hash for name, spec in loaded.tools.items()} == {
        name: spec.content_hash for name, spec in made.tools.items()
    }
    assert lint(import_sources([path])) == []


def test_fields_are_added_until_the_mark_is_passed_or_they_run_out() -> None:
    def one(text: str) -> int:
        return 1

    fields = [(name, {}) for name in "abc"]
    properties: dict[str, Any] = {}
    assert add_fields(properties, fields, 2, one) == 0
    assert list(properties) == ["a", "b"]
    assert add_fields(properties, iter(fields), 0, one) == 0
    assert add_fields(properties, fields, 5, one) == 2
    assert list(properties) == ["a", "b", "c"]
