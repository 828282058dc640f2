"""The figures of `breadcrumbs.data_gen.stats` as tables for a terminal and as one plot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from breadcrumbs.data_gen.templates import LIMIT, too_frequent
from breadcrumbs.errors import DataError
from breadcrumbs.visible import visible

PLOT_KINDS = (".svg", ".png", ".pdf")
COLOURS = {
    "dispatch": "#2a9d8f",
    "clarify": "#e9a03b",
    "decline": "#8d99ae",
    "answer": "#5b7fb9",
    "hold": "#b56576",
}


def tables(figures: Mapping[str, Any], dropped: Mapping[str, int]) -> Iterator[Text | Table]:
    """Titles and tables, in turn."""
    yield _title("rows by behaviour, source, split and domain")
    yield _cells(figures["cells"])
    yield _title("what is done at the decision point")
    yield _decisions(figures["decisions"])
    yield _title("dispatch rows with a required argument that is not verbatim in the request")
    yield _not_verbatim(figures["not_verbatim"])
    if "kinds" in figures:
        yield _title("special kinds")
        yield _counts("kind", figures["kinds"])
    if "voices" in figures:
        yield _title("personas and languages")
        yield _counts("persona", figures["voices"])
    for axis, counts in figures.get("shapes", {}).items():
        yield _title(f"rows by {axis}")
        yield _shares(axis, counts)
    for name in ("request_openings", "request_templates", "system_templates"):
        yield _title(f"most frequent of {figures[name]['distinct']} {name.replace('_', ' ')}")
        yield _templates(figures[name]["most_frequent"])
    yield _title(f"the most frequent template of each part, of all rows (limit {_share(LIMIT)})")
    yield _parts(figures["template_shares"])
    if dropped:
        yield _title("dropped while the set was made")
        yield _dropped(dropped)


def _cells(cells: Sequence[Mapping[str, Any]]) -> Table:
    """A line for each split and domain, a column for each behaviour and source."""
    columns = sorted({(cell["behaviour"], cell["source"]) for cell in cells})
    lines = sorted({(cell["split"], cell["domain"]) for cell in cells})
    found = Counter({_key(cell): cell["rows"] for cell in cells})
    table = _table("split", "domain")
    for behaviour, source in columns:
        _column(table, f"{behaviour}\n{source}")
    _column(table, "all")
    for line in lines:
        numbers = [found[(*line, *column)] for column in columns]
        table.add_row(*map(_text, line), *map(str, numbers), str(sum(numbers)))
    return table


def _key(cell: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(cell[name] for name in ("split", "domain", "behaviour", "source"))


def _counts(head: str, found: Mapping[str, Mapping[str, int]]) -> Table:
    """A line for each key, a column for each of the things that are counted."""
    columns = sorted({name for counts in found.values() for name in counts})
    table = _table(head)
    for name in columns:
        _column(table, name)
    for key, counts in found.items():
        table.add_row(_text(key), *(str(counts.get(name, 0)) for name in columns))
    return table


def _parts(shares: Mapping[str, Mapping[str, Any]]) -> Table:
    table = _table("part")
    for name in ("rows", "distinct", "of it", "share", ""):
        _column(table, name)
    table.add_column("words", overflow="fold")
    above = too_frequent(shares)
    for part, one in shares.items():
        numbers = (str(one[name]) for name in ("rows", "distinct", "of_it"))
        mark = "above" if part in above else ""
        table.add_row(part, *numbers, _share(one["share"]), mark, _text(one["most_frequent"]))
    return table


def _shares(axis: str, counts: Mapping[str, int]) -> Table:
    table = _table(axis)
    for name in ("rows", "share"):
        _column(table, name)
    rows = sum(counts.values())
    for value, number in counts.items():
        table.add_row(_text(value), str(number), f"{100 * number / rows:.1f} %")
    return table


def _decisions(found: Mapping[str, Mapping[str, Any]]) -> Table:
    table = _table("split")
    for name in ("act", "ask", "decline", "act : ask"):
        _column(table, name)
    for split, numbers in found.items():
        ratio = numbers["act_per_ask"]
        shown = "-" if ratio is None else f"{ratio:.2f} : 1"
        table.add_row(_text(split), *(str(numbers[d]) for d in ("act", "ask", "decline")), shown)
    return table


def _not_verbatim(found: Mapping[str, Any]) -> Table:
    table = _table("why")
    _column(table, "rows")
    _column(table, "share")
    whole = found["dispatch_rows"]
    for reason, number in (*found["why"].items(), ("any", found["rows"])):
        table.add_row(reason, str(number), _share(number / whole if whole else 0.0))
    return table


def _templates(listed: Sequence[Mapping[str, Any]]) -> Table:
    table = _table()
    _column(table, "rows")
    _column(table, "share")
    table.add_column("words", overflow="fold")
    for one in listed:
        table.add_row(str(one["rows"]), _share(one["share"]), _text(one["template"]))
    return table


def _dropped(dropped: Mapping[str, int]) -> Table:
    table = _table("reason")
    _column(table, "rows")
    for reason, number in sorted(dropped.items()):
        table.add_row(_text(reason), str(number))
    return table


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"


def _title(text: str) -> Text:
    return Text(text, style="bold")


def _table(*heads: str) -> Table:
    table = Table(box=SIMPLE_HEAD)
    for head in heads:
        table.add_column(head, overflow="fold")
    return table


def _column(table: Table, head: str) -> None:
    table.add_column(head, justify="right")


def _text(text: str) -> Text:
    return Text("\n".join(visible(line) for line in text.split("\n")))


def plot(figures: Mapping[str, Any], path: Path) -> None:
    """Draw rows by domain and by split, stacked by behaviour; equal figures give equal files.

    Raises:
        DataError: the place cannot be written, or the ending is none that can be drawn.
    """
    if path.suffix.lower() not in PLOT_KINDS:
        raise DataError(f"{path}: name a file ending in {', '.join(PLOT_KINDS)}")
    import matplotlib
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    _bars(left, figures["cells"], "domain")
    _bars(right, figures["cells"], "split")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    try:
        with matplotlib.rc_context({"svg.hashsalt": "breadcrumbs"}):
            figure.savefig(path, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
    except OSError as error:
        raise DataError(f"{path}: cannot write: {error.strerror or error}") from error


def _bars(axes: Any, cells: Sequence[Mapping[str, Any]], axis: str) -> None:
    names = sorted({cell[axis] for cell in cells}, reverse=True)
    found: Counter[tuple[str, str]] = Counter()
    for cell in cells:
        found[cell["behaviour"], cell[axis]] += cell["rows"]
    begins = [0] * len(names)
    occurring = {cell["behaviour"] for cell in cells}
    for behaviour, colour in ((b, c) for b, c in COLOURS.items() if b in occurring):
        widths = [found[behaviour, name] for name in names]
        axes.barh(names, widths, left=begins, color=colour, label=behaviour)
        begins = [begin + width for begin, width in zip(begins, widths, strict=True)]
    axes.set_xlabel(f"rows by {axis}")
    axes.spines[["top", "right"]].set_visible(False)
