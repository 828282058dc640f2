"""What a schema's regular expressions can cost: steps that a linear-time engine may take at a time.

Such an engine never takes exponential time, but a short pattern with a large repeat, such as
`^[01]*1[01]{9000}$`, is in thousands of places at once: 40 µs for each character of a text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_TOKEN = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\{(?P<least>\d+)(?:,(?P<most>\d*))?\}|.", re.DOTALL)
"""An escape, a class, a repeat, or any other character."""


def steps(schema: Any) -> int:
    """The steps of all patterns in a schema, references written out."""
    if isinstance(schema, list):
        return sum(map(steps, schema))
    if not isinstance(schema, Mapping):
        return 0
    named = schema.get("patternProperties")
    patterns = [schema.get("pattern"), *(named if isinstance(named, Mapping) else ())]
    own = sum(pattern_steps(pattern) for pattern in patterns if isinstance(pattern, str))
    return own + sum(map(steps, schema.values()))


def pattern_steps(pattern: str) -> int:
    """Characters, classes and escapes of a pattern, its counted repeats written out."""
    groups = [0]
    last = 0
    for token in _TOKEN.finditer(pattern):
        char = token[0]
        if char == "(":
            groups.append(0)
            last = 0
        elif char == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        elif token["least"] is not None:
            times = max(1, int(token["most"] or token["least"]))
            groups[-1] += last * (times - 1)
            last *= times
        else:
            last = last if char in "*+?" else 1  # `a+{9}` repeats what stands before the plus
            groups[-1] += 1
    return sum(groups)
