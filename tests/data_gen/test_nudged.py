"""What becomes of stall and nudge: cut out, kept without loss, or kept; each row says which."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.cli import main
from breadcrumbs.data_gen.config import GenerateConfig
from breadcrumbs.data_gen.dataset import Row, load_rows, write_dataset
from breadcrumbs.data_gen.generate import generate
from breadcrumbs.data_gen.nudged import Nudged, stalled_turns
from breadcrumbs.data_gen.pairs import pairs_of
from breadcrumbs.data_gen.stats import decision_of
from breadcrumbs.data_gen.validate import validate
from breadcrumbs.messages import Message

NUDGE_WORDS = "A tool runs only when it is called."


def _silent(done: int, total: int, note: str = "") -> None:
    pass


@pytest.fixture(scope="module")
def folders(
    small_config: GenerateConfig, tmp_path_factory: pytest.TempPathFactory
) -> dict[Nudged, Path]:
    """One data set three times, all its training calls corrected."""
    found: dict[Nudged, Path] = {}
    modes: tuple[Nudged, ...] = ("remove", "mask", "keep")
    for mode in modes:
        found[mode] = tmp_path_factory.mktemp("nudged") / mode
        config = dataclasses.replace(small_config, corrected_share=1.0, nudged=mode)
        generate(config, found[mode], _silent)
    return found


def nudged_rows(folder: Path) -> list[Row]:
    return [row for row in load_rows(folder, "train") if "stall" in row.meta]


def test_a_row_says_what_became_of_its_stall(folders: dict[Nudged, Path]) -> None:
    removed, masked, kept = (nudged_rows(folders[mode]) for mode in folders)
    assert len(removed) >= 6
    assert [r.id for r in removed] == [r.id for r in masked] == [r.id for r in kept]
    for cut, mask, keep in zip(removed, masked, kept, strict=True):
        assert (cut.source, mask.source, keep.source) == ("corrected", "nudged", "nudged")
        assert "nudged" not in cut.meta
        assert (mask.meta["nudged"], keep.meta["nudged"]) == ("mask", "keep")
        assert mask.messages == keep.messages
        stalls = list(stalled_turns(mask.messages))
        assert len(stalls) == 1
        assert mask.meta["unlearned"] == mask.meta["stalls"] == keep.meta["stalls"] == stalls
        assert "unlearned" not in keep.meta


def test_only_where_they_are_removed_no_word_of_stall_or_nudge_is_left(
    folders: dict[Nudged, Path],
) -> None:
    removed, masked = (nudged_rows(folders[mode]) for mode in ("remove", "mask"))
    for cut, mask in zip(removed, masked, strict=True):
        (place,) = stalled_turns(mask.messages)
        stall, nudge = mask.messages[place], mask.messages[place + 1]
        text = "\n".join(message.content for message in cut.messages)
        assert stall.content not in text
        assert NUDGE_WORDS in nudge.content
        assert NUDGE_WORDS not in text
        assert list(cut.messages) == [*mask.messages[:place], *mask.messages[place + 2 :]]
        assert (cut.meta["state_hash"], cut.meta["queue"]) == (
            mask.meta["state_hash"],
            mask.meta["queue"],
        )


@pytest.mark.parametrize("mode", ["remove", "mask", "keep"])
def test_every_row_runs_again_and_still_acts(folders: dict[Nudged, Path], mode: Nudged) -> None:
    assert validate(folders[mode], _silent).faults == ()
    assert {decision_of(row) for row in nudged_rows(folders[mode])} == {"act"}


def test_a_nudge_in_other_words_is_caught(folders: dict[Nudged, Path], tmp_path: Path) -> None:
    import json

    rows = load_rows(folders["mask"])
    at = next(place for place, row in enumerate(rows) if row.source == "nudged")
    (stall,) = stalled_turns(rows[at].messages)
    messages = list(rows[at].messages)
    messages[stall + 1] = Message("user", "Do it.", synthetic=True)
    rows[at] = dataclasses.replace(rows[at], messages=tuple(messages))
    manifest = json.loads((folders["mask"] / "manifest.json").read_text())
    write_dataset(tmp_path / "set", rows, manifest)
    found = validate(tmp_path / "set", _silent).by_reason()
    assert list(found) == ["replay: the conversation differs"]


def test_the_pair_of_a_nudged_row_is_its_own_call_over_its_own_stall(
    folders: dict[Nudged, Path],
) -> None:
    pairs = {mode: pairs_of(load_rows(folders[mode], "train"))[0] for mode in folders}
    assert [p.row.id for p in pairs["mask"]] == [p.row.id for p in pairs["remove"]]
    for cut, mask in zip(pairs["remove"], pairs["mask"], strict=True):
        assert (cut.prompt, cut.chosen) == (mask.prompt, mask.chosen)
        if mask.row.source == "nudged":
            (place,) = stalled_turns(mask.row.messages)
            assert mask.rejected == mask.row.messages[place]
            assert mask.fault == mask.row.meta["stall"]


def test_a_corrected_row_has_its_pair_and_its_twin_the_reverse(
    folders: dict[Nudged, Path],
) -> None:
    for mode, folder in folders.items():
        pairs = pairs_of(load_rows(folder, "train"))[0]
        behaviours: dict[str, set[str]] = {}
        for pair in pairs:
            behaviours.setdefault(pair.row.twin, set()).add(pair.row.behaviour)
        for row in nudged_rows(folder):
            assert behaviours[row.twin] == {"dispatch", "clarify"}, mode


def test_the_flag_is_the_configs_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = Path(__file__).parent / "small"
    sets = {
        "catalogs": [str(small / n) for n in ("calendar.yaml", "bank.yaml", "travel.yaml")],
        "hints": [str(path) for path in sorted(small.glob("hints_*.yaml"))],
        "held_out_tools": ["create_calendar_event"],
        "held_out_domain": "travel",
        "train": {"pairs": 2},
        "eval_tools": {"pairs": 0},
        "eval_domain": {"pairs": 0},
        "corrected_share": 1.0,
    }
    config = tmp_path / "small.yaml"
    config.write_text(yaml_of({"version": 1, **sets}))
    out = tmp_path / "set"
    main(["generate", "--config", str(config), "--out", str(out), "--nudged", "mask"])
    assert "nudged 2" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["generate", "--config", str(config), "--out", str(out), "--nudged", "burn"])
    assert "'burn' is not one of" in capsys.readouterr().err


def yaml_of(data: dict[str, Any]) -> str:
    import yaml

    return str(yaml.safe_dump(data))
