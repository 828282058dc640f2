"""Two data sets side by side: config, counts, rows by id, and where tools and rows moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breadcrumbs.data_gen.dataset import AXES, load_rows, read_manifest
from breadcrumbs.errors import DataError

_FACTS = ("version", "inputs_hash")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs from A to B; a value that one side lacks is None."""

    config: Mapping[str, tuple[Any, Any]]
    """Settings that differ, by dotted key; also the version and the hash of all inputs."""
    counts: Mapping[str, Mapping[str, tuple[int, int]]]
    """Rows in A and in B, by axis and name; all of them, equal ones too."""
    dropped: Mapping[str, tuple[int, int]]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    changed: Mapping[str, tuple[str, ...]]
    """Columns that differ, by the id of a row that both hold."""
    moved_rows: Mapping[str, tuple[str, str]]
    moved_tools: Mapping[str, tuple[str | None, str | None]]
    """Tools whose split differs."""
    reordered: bool
    """Whether the rows that both hold stand in another order, which is the batch order."""

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not (
            self.config
            or self.dropped
            or self.only_a
            or self.only_b
            or self.changed
            or self.moved_tools
            or self.reordered
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; a pair is a list of A's and B's."""
        pairs = ("config", "dropped", "moved_rows", "moved_tools")
        counts = {axis: _lists(found) for axis, found in self.counts.items()}
        return {
            "equal": self.equal,
            **{name: _lists(getattr(self, name)) for name in pairs},
            "counts": counts,
            "only_a": list(self.only_a),
            "only_b": list(self.only_b),
            "changed": _lists(self.changed),
            "reordered": self.reordered,
        }


def _lists(found: Mapping[str, tuple[Any, ...]]) -> dict[str, list[Any]]:
    return {key: list(value) for key, value in found.items()}


def compare(left: Path, right: Path) -> Comparison:
    """Compare two complete data sets, row by row.

    Raises:
        DataError: one is missing, incomplete or damaged, or an id stands twice in it.
    """
    a, b = read_manifest(left), read_manifest(right)
    rows_a, rows_b = _records(left), _records(right)
    both = [row_id for row_id in rows_a if row_id in rows_b]
    changed = {
        row_id: columns
        for row_id in both
        if (columns := _differing(rows_a[row_id], rows_b[row_id]))
    }
    return Comparison(
        config=_differences(dict(_settings(a)), dict(_settings(b)), None),
        counts={axis: _side_by_side(_axis(a, axis), _axis(b, axis)) for axis in ("all", *AXES)},
        dropped=_differences(a["dropped"], b["dropped"], 0),
        only_a=tuple(row_id for row_id in rows_a if row_id not in rows_b),
        only_b=tuple(row_id for row_id in rows_b if row_id not in rows_a),
        changed=changed,
        moved_rows={
            row_id: (rows_a[row_id]["split"], rows_b[row_id]["split"])
            for row_id, columns in changed.items()
            if "split" in columns
        },
        moved_tools=_differences(_splits_of_tools(a), _splits_of_tools(b), None),
        reordered=both != [row_id for row_id in rows_b if row_id in rows_a],
    )


def _records(folder: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for row in load_rows(folder):
        if row.id in found:
            raise DataError(
                f"{folder}: the id {row.id!r} stands twice; see: breadcrumbs data validate {folder}"
            )
        found[row.id] = row.to_record()
    return found


def _differing(left: Mapping[str, Any], right: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(column for column in left if left[column] != right[column])


def _settings(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for fact in _FACTS:
        yield fact, manifest.get(fact)
    yield from _flat(manifest["config"], "config")


def _flat(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flat(inner, f"{key}.{name}")
    else:
        yield key, value


def _axis(manifest: Mapping[str, Any], axis: str) -> dict[str, int]:
    counts = manifest["counts"]
    if axis == "all":
        return {"trajectories": counts["trajectories"]}
    return dict(counts.get(axis, {}))


def _splits_of_tools(manifest: Mapping[str, Any]) -> dict[str, str]:
    return {tool: split for split, tools in manifest.get("tools", {}).items() for tool in tools}


def _side_by_side(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    return {name: (left.get(name, 0), right.get(name, 0)) for name in sorted({*left, *right})}


def _differences(
    left: Mapping[str, Any], right: Mapping[str, Any], absent: Any
) -> dict[str, tuple[Any, Any]]:
    pairs = {n: (left.get(n, absent), right.get(n, absent)) for n in sorted({*left, *right})}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
