"""Verify every model family anew and write the table of docs/families.md."""

from __future__ import annotations

from pathlib import Path

from breadcrumbs.models import SMALL, resolve_model
from breadcrumbs.rendering import load_renderer
from breadcrumbs.train.families import write_table


def main() -> None:
    """Write the table into the page."""
    page = Path(__file__).parent.parent / "docs" / "families.md"
    write_table(page, load_renderer(resolve_model(SMALL)).tokenizer)
    print(f"written: {page}")


if __name__ == "__main__":
    main()
