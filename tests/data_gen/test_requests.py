"""Values, hints and requests: drawn from a seed, always said, cleanly left out."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from breadcrumbs.data_gen.grounding import normalise, says, says_boolean
from breadcrumbs.data_gen.hints import ToolHint, check_hints, load_hints, records_of
from breadcrumbs.data_gen.requests import HELD_OUT_ASKS, Phrasing, plan_request
from breadcrumbs.data_gen.values import draw, kind_of, spoken
from breadcrumbs.errors import CatalogError
from breadcrumbs.gateway.arguments import check_arguments
from breadcrumbs.gateway.catalog import Catalog, load_catalog

CATALOG, HINTS = load_catalog(), load_hints()
NOW = datetime(2026, 3, 2, 9)
SMALL = Path(__file__).parent / "small"


@given(
    st.sampled_from(CATALOG.names()), st.integers(0, 10**6), st.sampled_from(["plain", "varied"])
)
def test_a_request_says_all_its_values_and_drops_one_cleanly(
    tool: str, seed: int, phrasing: Phrasing
) -> None:
    rng = random.Random(seed)
    spec, hint = CATALOG.tools[tool], HINTS[tool]
    schemas = spec.input_schema["properties"]
    records = records_of(CATALOG, spec.domain)
    names = [name for name in schemas if name not in hint.composed]
    values = {n: draw(hint.arguments[n].values, schemas[n], records, NOW, rng) for n in names}
    topic = hint.topics[0] if hint.topics else None
    plan = plan_request(hint, values, schemas, topic, rng, phrasing=phrasing)
    said = normalise(plan.say())
    for name, value in values.items():
        if isinstance(value, bool):
            assert says_boolean(said, name, value, hint.arguments[name]), plan.say()
        else:
            assert says(said, value, schemas[name]), plan.say()
    assert "{" not in plan.say().replace(topic.say if topic else "", "")
    dropped = rng.choice(names)
    clause = next(c.text for c in plan.clauses if c.argument == dropped)
    assert len(plan.say((dropped,))) <= len(plan.say()) - len(clause.removeprefix("and "))
    assert plan.say()[0].isupper() or not plan.say()[0].isalpha()
    faults = [e for e in check_arguments(spec, values).errors if "required" not in e.message]
    assert not faults


def test_same_seed_same_request() -> None:
    hint, spec = HINTS["create_calendar_event"], CATALOG.tools["create_calendar_event"]
    schemas = spec.input_schema["properties"]

    def say(seed: int) -> str:
        return plan_request(hint, {}, schemas, None, random.Random(seed)).say()

    assert say(4) == say(4)
    assert len({say(seed) for seed in range(60)}) > 25


def test_some_openers_are_kept_for_evaluation() -> None:
    hint, spec = HINTS["create_calendar_event"], CATALOG.tools["create_calendar_event"]
    schemas = spec.input_schema["properties"]

    def openers(held_out: bool) -> str:
        plans = [
            plan_request(hint, {}, schemas, None, random.Random(seed), held_out=held_out)
            for seed in range(200)
        ]
        return " ".join(plan.opener.lower() for plan in plans)

    kept = [ask.strip().lower() for ask in HELD_OUT_ASKS]
    assert all(ask in openers(True) for ask in kept)
    assert not any(ask in openers(False) for ask in ("kindly", "we have to", "will you please"))


def test_values_are_spoken_as_people_write_them() -> None:
    assert spoken(["a", "b", "c"], {}) == "a, b and c"
    assert spoken("in_progress", {"enum": ["in_progress"]}) == "in progress"
    assert spoken("a_b", {}) == "a_b"
    assert spoken({"zip_code": "1"}, {"properties": {"zip_code": {}}}) == "zip code 1"


@pytest.mark.parametrize("source", [{}, {"pool": [], "enum": True}, {"pool": ["a"], "lenght": 3}])
def test_an_unclear_value_source_is_refused(source: dict[str, object]) -> None:
    with pytest.raises(CatalogError, match="values"):
        kind_of(source)


def test_faults_between_hints_and_catalog_are_named(
    small_catalog: Catalog, small_hints: Mapping[str, ToolHint], tmp_path: Path
) -> None:
    assert check_hints(small_hints, small_catalog) == []
    data = yaml.safe_load((SMALL / "hints_travel.yaml").read_text())
    arguments = data["tools"]["book_hotel_room"]["arguments"]
    arguments["guests"]["values"] = {"integer": [20, 30]}
    arguments["city"]["questions"] = []
    arguments["pool"] = arguments.pop("contact")
    data["tools"]["fly_to_the_moon"] = data["tools"]["book_hotel_room"]
    broken = tmp_path / "broken.yaml"
    broken.write_text(yaml.safe_dump(data))
    others = [SMALL / "hints_calendar.yaml", SMALL / "hints_bank.yaml"]
    faults = "\n".join(check_hints(load_hints([*others, broken]), small_catalog))
    for words in ("fly_to_the_moon: no such tool", "'pool' is not a parameter", "guests: value"):
        assert words in faults
    assert "'contact' has no hint" in faults
    assert "city: required, but no question" in faults
    assert "add_reminder: no hints" in "\n".join(check_hints({}, small_catalog))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("version: 1\ndomain: x\ntools: {a: {serach: []}}", "serach"),
        ("version: 2\ndomain: x\ntools: {}", "version"),
        ("tools: [", "not valid YAML"),
    ],
)
def test_a_broken_hint_file_is_one_clear_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "hints.yaml"
    path.write_text(text)
    with pytest.raises(CatalogError, match=words) as caught:
        load_hints([path])
    assert "hints.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(CatalogError, match="another file"):
        load_hints([SMALL / "hints_bank.yaml", SMALL / "hints_bank.yaml"])
