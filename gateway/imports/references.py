"""Local `$ref` pointers, resolved inside one document; nothing is ever fetched."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

from breadcrumbs.errors import CatalogError

_INDEX = re.compile(r"[0-9]{1,9}")
"""Python refuses to read a number of thousands of digits."""


def resolve_pointer(document: Any, pointer: Any) -> Any:
    """What a local pointer such as `#/$defs/place` points to.

    Raises:
        CatalogError: it is no local pointer, or nothing stands there.
    """
    if not isinstance(pointer, str):
        raise CatalogError("$ref is not text")
    shown = repr(pointer[:80])
    if not pointer.startswith("#"):
        raise CatalogError(f"$ref {shown} is remote and is not fetched; write the schema in place")
    if pointer != "#" and not pointer.startswith("#/"):
        raise CatalogError(f"$ref {shown} names an anchor; use a pointer such as #/$defs/name")
    found = document
    for step in pointer.split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and _INDEX.fullmatch(name) and int(name) < len(found):
            found = found[int(name)]
        else:
            raise CatalogError(f"$ref {shown} points to nothing")
    return found
