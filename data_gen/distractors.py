"""Made-up tools whose names are near a real one's, and that do something else.

They stand among the search hits of a scenario, behind the same gateway: what is called runs, and
changes no record. A catalog fixes them to the byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from weakref import WeakKeyDictionary

from breadcrumbs.data_gen.values import words
from breadcrumbs.errors import DataError
from breadcrumbs.gateway.catalog import Catalog, Risk, ToolSpec

MOST_IN_ALL = 6000
"""Made-up tools over one catalog: a large one has near tools of its own."""
_MAKINGS: tuple[tuple[str, str, Risk], ...] = (
    ("count_{thing}_entries", "Count the {said} entries. Returns one number.", Risk.READ),
    ("export_{thing}_report", "Export a report about {said} as a PDF file.", Risk.READ),
    ("{thing}_audit_log", "Read who changed which {said} and when.", Risk.READ),
    ("list_{thing}_permissions", "List the roles that may see {said}.", Risk.READ),
    ("{act}_{thing}_template", "Edit the printed form for {said}. Touches no entry.", Risk.WRITE),
    ("subscribe_to_{thing}_changes", "Send me a message when any {said} changes.", Risk.WRITE),
    ("tag_{thing}_archive", "Put a label on the archive of {said}.", Risk.WRITE),
    ("{thing}_usage_statistics", "Show by month how often {said} was looked up.", Risk.READ),
    ("validate_{thing}_import_file", "Check a file of {said} before an import.", Risk.READ),
    ("translate_{thing}_labels", "Translate the field labels of {said}.", Risk.WRITE),
    ("set_{thing}_retention", "Set after how many months old {said} are purged.", Risk.WRITE),
    ("get_{thing}_schema_version", "Read the version of the {said} schema.", Risk.READ),
    ("rename_{thing}_column", "Rename a column of the {said} overview.", Risk.WRITE),
    ("sort_{thing}_overview", "Choose the order of the {said} overview.", Risk.WRITE),
    ("benchmark_{thing}_queries", "Measure how long queries on {said} take.", Risk.READ),
    ("rebuild_{thing}_index", "Rebuild the search index over {said}.", Risk.WRITE),
    ("preview_{thing}_newsletter", "Preview the newsletter about {said}.", Risk.READ),
    ("{thing}_help_page", "Read the help page about {said}.", Risk.READ),
    ("estimate_{thing}_storage", "Estimate the disk space of all {said}.", Risk.READ),
    ("anonymize_{thing}_samples", "Make nameless samples of {said} for tests.", Risk.WRITE),
    ("compare_{thing}_years", "Compare the number of {said} with last year's.", Risk.READ),
    ("migrate_{thing}_storage", "Move stored {said} to another region.", Risk.DESTRUCTIVE),
    ("{thing}_webhook_secret_age", "Tell how old the {said} webhook secret is.", Risk.READ),
    ("pin_{thing}_dashboard", "Pin the {said} dashboard to the start page.", Risk.WRITE),
    ("vote_on_{thing}_feature", "Vote for a planned feature of {said}.", Risk.WRITE),
    ("train_{thing}_classifier", "Train the classifier that sorts {said}.", Risk.WRITE),
    ("{thing}_glossary", "Look up what a term about {said} means.", Risk.READ),
    ("test_{thing}_notifications", "Send a test notification about {said}.", Risk.WRITE),
    ("purge_{thing}_cache", "Empty the cache of {said}. No entry is lost.", Risk.WRITE),
)
PER_TOOL = len(_MAKINGS)
_CROWDS: WeakKeyDictionary[Catalog, Catalog] = WeakKeyDictionary()


def near_names(catalog: Catalog, tool: str) -> list[str]:
    """The made-up tools near one of a catalog."""
    spec = _whole(catalog).tools[tool]
    return [made.name for made in _near(spec, _whole(catalog))]


def with_distractors(catalog: Catalog, names: Sequence[str]) -> Catalog:
    """The same catalog and some of the made-up tools.

    Raises:
        DataError: there is none of such a name.
    """
    crowd = _crowd(_whole(catalog))
    unknown = [name for name in names if name not in crowd.tools]
    if unknown:
        raise DataError(f"shape: no made-up tool {unknown[0]!r}; regenerate the data")
    tools = {**catalog.tools, **{name: crowd.tools[name] for name in names}}
    return Catalog(tools, catalog.collections, crowd)


def _whole(catalog: Catalog) -> Catalog:
    return catalog.whole or catalog


def _crowd(whole: Catalog) -> Catalog:
    """The catalog with every made-up tool: one search index serves all cuts of it."""
    if whole not in _CROWDS:
        made = {near.name: near for spec in whole.tools.values() for near in _near(spec, whole)}
        _CROWDS[whole] = Catalog({**made, **whole.tools}, whole.collections)
    return _CROWDS[whole]


def _near(spec: ToolSpec, whole: Catalog) -> Iterator[ToolSpec]:
    said = words(spec.name).split()
    act, thing = said[0], said[1:] or said
    some = max(1, min(PER_TOOL, MOST_IN_ALL // len(whole.tools)))
    for name, about, risk in _MAKINGS[:some]:
        plain = re.sub(r"\W+", "_", name.format(act=act, thing="_".join(thing)))
        if plain not in whole.tools:
            yield _made(plain, about.format(said=" ".join(thing)), risk, spec)


def _made(name: str, description: str, risk: Risk, near: ToolSpec) -> ToolSpec:
    """A tool beside another: its words and its first field, in which a model could mistake it."""
    properties = dict(list(near.input_schema["properties"].items())[:1])
    properties.setdefault("note", {"type": "string"})
    return ToolSpec(
        name=name,
        description=description,
        input_schema={
            "type": "object",
            "required": list(properties)[:1],
            "properties": properties,
            "additionalProperties": False,
        },
        risk=risk,
        domain=near.domain,
        keywords=near.keywords,
        requires_approval=risk is not Risk.READ,
        allow=near.allow,
    )
