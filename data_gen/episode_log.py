"""Episodes of a model, written down whole as they end, one line each.

What a model says cannot be drawn again from a seed, so it is kept; everything that is made of it
can be made again from here. A line that is not whole counts as none, and so does what follows it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from breadcrumbs.data_gen.episodes import Episode
from breadcrumbs.errors import DataError
from breadcrumbs.events import Done, Nudge
from breadcrumbs.messages import messages_from_dicts


@dataclass(frozen=True, slots=True)
class EpisodeLog:
    """The episodes of one model on one data set, by scenario id."""

    path: Path
    episodes: dict[str, Episode] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path, identity: Mapping[str, Any]) -> EpisodeLog:
        """Read what is there, or begin anew; `identity` says whose episodes these are.

        Raises:
            DataError: the file holds episodes of something else, or cannot be used.
        """
        log = cls(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_bytes() if path.exists() else b""
            log._read(text, identity)
        except OSError as error:
            raise DataError(f"{path}: cannot use it: {error.strerror or error}") from error
        return log

    def add(self, scenario_id: str, episode: Episode) -> None:
        """Keep an episode; it is on the disk when this returns.

        Raises:
            DataError: it cannot be written; what was kept before stays.
        """
        try:
            self._append({"id": scenario_id, **_body(episode)})
        except OSError as error:
            raise DataError(
                f"{self.path}: cannot write: {error.strerror or error}; make room and run the same"
                " command again, it goes on from here"
            ) from error
        self.episodes[scenario_id] = episode

    def _read(self, text: bytes, identity: Mapping[str, Any]) -> None:
        lines = text.splitlines(keepends=True)
        if not lines:
            self._append({"identity": dict(identity)})
            return
        self._check(lines[0], identity)
        whole = len(lines[0])
        for line in lines[1:]:
            try:
                body = json.loads(line) if line.endswith(b"\n") else {}
                self.episodes[body["id"]] = _episode(body)
            except (AttributeError, KeyError, TypeError, ValueError):
                os.truncate(self.path, whole)
                return
            whole += len(line)

    def _check(self, line: bytes, identity: Mapping[str, Any]) -> None:
        how = "choose another --out or delete the file"
        try:
            known = dict(json.loads(line)["identity"])
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{self.path}: holds no episodes; {how}") from error
        changed = sorted(k for k in {*known, *identity} if known.get(k) != identity.get(k))
        if changed:
            raise DataError(f"{self.path}: holds episodes of another {', '.join(changed)}; {how}")

    def _append(self, body: Mapping[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(body, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _body(episode: Episode) -> dict[str, Any]:
    last = episode.events[-1]
    assert isinstance(last, Done)
    nudges = [e for e in episode.events if isinstance(e, Nudge)]
    return {
        "messages": [message.to_dict() for message in episode.messages],
        "nudges": [[nudge.text, nudge.kind, nudge.count] for nudge in nudges],
        "done": [last.reason, last.text],
        "calls": list(episode.calls),
        "state_hash": episode.state_hash,
        "queue": [list(entry) for entry in episode.queue],
    }


def _episode(body: Mapping[str, Any]) -> Episode:
    """The episode as far as it was written down: of its events, nudges and end; no tools."""
    reason, text = body["done"]
    return Episode(
        messages=tuple(messages_from_dicts(body["messages"])),
        tools=(),
        events=(*(Nudge(*nudge) for nudge in body["nudges"]), Done(reason, text)),
        calls=tuple(body["calls"]),
        state_hash=body["state_hash"],
        queue=tuple((tool, arguments, state) for tool, arguments, state in body["queue"]),
    )
