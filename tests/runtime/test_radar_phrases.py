"""The phrase files: read whole, one line about what is wrong in one."""

from __future__ import annotations

import re
from dataclasses import fields
from importlib import resources
from pathlib import Path

import pytest
import yaml

from breadcrumbs.errors import ConfigError
from breadcrumbs.radar_phrases import CODES, Phrases, languages, read_phrases

PURPOSES = [field.name for field in fields(Phrases)]


def written(folder: Path, **changes: object) -> Path:
    body: dict[str, object] = {
        "version": 1,
        "words": {"do": ["run", "send"], "gap": "[^.]{0,9}"},
        "phrases": {purpose: [f"{purpose} {{do}}", "{gap}!"] for purpose in PURPOSES},
    }
    path = folder / "xx.yaml"
    path.write_text(yaml.safe_dump({**body, **changes}))
    return path


def test_every_file_is_a_language_and_every_purpose_has_phrases() -> None:
    folder = Path(str(resources.files("breadcrumbs.configs"))) / "radar"
    assert {path.stem for path in folder.iterdir()} == set(CODES)
    assert len(languages()) == len(CODES)
    for phrases in languages():
        for purpose in PURPOSES:
            pattern = getattr(phrases, purpose)
            assert len(pattern.pattern) > 5
            assert pattern.search("") is None  # an empty alternative would hear everything
            assert not re.search(r"\{[a-z]", pattern.pattern)  # a name that nothing was put in for


def test_words_are_put_in_for_their_names(tmp_path: Path) -> None:
    phrases = read_phrases(written(tmp_path))
    assert phrases.leave.pattern == "leave (?:run|send)|[^.]{0,9}!"
    assert phrases.leave.search("leave send") is not None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"phrases": {"leave": ["x"]}}, "mend"),
        ({"phrases": {**dict.fromkeys(PURPOSES, ["x"]), "sighs": ["x"]}}, "mend 'sighs'"),
        ({"phrases": {**dict.fromkeys(PURPOSES, ["x"]), "leave": ["{verb}"]}}, "leave: .*'verb'"),
        ({"phrases": {**dict.fromkeys(PURPOSES, ["x"]), "more": ["("]}}, "more: no regular"),
        ({"phrases": "x"}, "phrases"),
        ({"voices": {}}, "unknown key 'voices'"),
        ({"version": 2}, "version must be 1"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_line(
    tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        read_phrases(written(tmp_path, **changes))
    assert "xx.yaml" in str(refused.value)
    assert "\n" not in str(refused.value)
