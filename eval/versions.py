"""What the figures of an evaluation were made with."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

from breadcrumbs import __version__


def versions() -> dict[str, Any]:
    """What the figures were made with."""
    libraries = {name: metadata.version(name) for name in ("torch", "transformers", "peft")}
    return {
        "breadcrumbs": __version__,
        "python": platform.python_version(),
        **libraries,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }
