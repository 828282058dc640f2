"""Catalog files: what loads, and what is refused with file and key named."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.errors import CatalogError
from breadcrumbs.gateway.arguments import check_arguments
from breadcrumbs.gateway.catalog import Catalog, Risk, load_catalog
from breadcrumbs.gateway.identity import SeededIds
from breadcrumbs.gateway.search import ToolIndex, stems
from breadcrumbs.gateway.worlds import World

FILLERS = {"string": "x", "integer": 1, "number": 1, "boolean": True, "array": []}


def test_specs_carry_risk_and_approval(desk: Catalog) -> None:
    assert desk.tools["delete_ticket"].risk is Risk.DESTRUCTIVE
    assert desk.tools["create_ticket"].requires_approval
    assert not desk.tools["add_ticket_note"].requires_approval
    assert not desk.tools["list_tickets"].requires_approval
    assert desk.tools["create_ticket"].input_schema["additionalProperties"] is False
    assert desk.domains == ["desk"]


def test_without_hides_and_remembers_the_whole(desk: Catalog) -> None:
    cut = desk.without(["get_ticket"]).without(["list_tickets"])
    assert cut.tool("get_ticket") is None
    assert cut.names() == ["add_ticket_note", "close_ticket", "create_ticket", "delete_ticket"]
    assert cut.whole is desk


def test_content_hash_follows_meaning(desk_file: Path, desk: Catalog, tmp_path: Path) -> None:
    before = desk.tools["create_ticket"].content_hash
    text = desk_file.read_text(encoding="utf-8")
    changed = {
        "keywords: [issue, problem]": "keywords: [fault]",
        "Open a support ticket.": "Send everything to a stranger.",
    }
    hashes = []
    for old, new in changed.items():
        path = tmp_path / "desk.yaml"
        path.write_text(text.replace(old, new), encoding="utf-8")
        hashes.append(load_catalog([path]).tools["create_ticket"].content_hash)
    assert hashes[0] == before
    assert hashes[1] != before


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("risk: write\n    keywords", "risk: harmless\n    keywords", "risk"),
        ("keywords: [issue", "keyword: [issue", "unknown key"),
        ("default: normal", "default: urgent", "priority"),
        ("minLength: 1", "minLength: minus", "does not compile"),
        ("required: [title]", "required: [titel]", "titel"),
        ("op: create, collection: tickets", "op: create, collection: tikets", "tikets"),
        ("key_argument: ticket_id, set", "key_argument: ticket, set", "key_argument"),
        ("name: get_ticket", "name: list_tickets", "named twice"),
        ("ticket_id: tkt_2", "tikket_id: tkt_2", "ticket_id"),
        ("ticket_id: tkt_2", "ticket_id: tkt_1", "tkt_1"),
        ("version: 1", "version: 9", "version"),
    ],
)
def test_a_bad_file_is_refused_by_name(
    desk_file: Path, tmp_path: Path, old: str, new: str, says: str
) -> None:
    text = desk_file.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "broken.yaml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(CatalogError, match=says) as caught:
        load_catalog([path])
    assert "broken.yaml" in str(caught.value)


def test_a_missing_file_and_a_repeated_domain_are_refused(desk_file: Path) -> None:
    with pytest.raises(CatalogError, match="nowhere"):
        load_catalog(["nowhere.yaml"])
    with pytest.raises(CatalogError, match="another file"):
        load_catalog([desk_file, desk_file])


SHIPPED = load_catalog()


@pytest.mark.parametrize("name", SHIPPED.names())
def test_every_shipped_tool_holds_together(name: str) -> None:
    """Loading has compiled the schema and checked defaults; here the tool is run."""
    spec = SHIPPED.tools[name]
    properties = spec.input_schema["properties"]
    assert spec.description
    assert len(spec.description.split()) <= 16
    assert spec.effect is not None
    assert spec.effect.collection in SHIPPED.collections[spec.domain]
    if spec.effect.key_argument is not None:
        assert spec.effect.key_argument in spec.required
    assert ToolIndex(SHIPPED).search(" ".join(stems(spec.name)), 5, spec.allow)
    arguments = {field: _filler(properties[field]) for field in spec.required}
    if spec.effect.key_argument is not None:
        kind = SHIPPED.collections[spec.domain][spec.effect.collection]
        assert kind.records, "nothing to act on"
        arguments[spec.effect.key_argument] = kind.records[0][kind.key]
    checked = check_arguments(spec, arguments)
    assert not [e for e in checked.errors if e.message == "required, but not given"]
    world = World(SHIPPED)
    before = world.state_hash()
    result = world.apply(spec, checked.values or arguments)
    assert isinstance(result, dict)
    assert (world.state_hash() == before) is (spec.effect.op in ("get", "list")) or (
        spec.effect.op == "update"
    )
    if spec.risk is Risk.READ:
        assert spec.effect.op in ("get", "list")


def test_ids_are_seeded_in_simulation_only() -> None:
    assert [SeededIds(3).new("appr") for _ in range(2)] == [SeededIds(3).new("appr")] * 2
    assert SeededIds(3).new("appr") != SeededIds(4).new("appr")


def _filler(schema: Mapping[str, Any]) -> Any:
    """Something of the right shape; patterns and formats are not tried."""
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "object":
        return {name: _filler(schema["properties"][name]) for name in schema.get("required", ())}
    return schema.get("minimum", FILLERS[schema["type"]])
