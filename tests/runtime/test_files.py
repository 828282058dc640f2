"""Reading files within bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from breadcrumbs.errors import CatalogError, DataError
from breadcrumbs.files import read_text


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes("café".encode("latin-1"))
    with pytest.raises(CatalogError, match="latin: not UTF-8"):
        read_text(tmp_path / "latin", 100, CatalogError)
    with pytest.raises(DataError, match="cannot read: Is a directory"):
        read_text(tmp_path, 100, DataError)


def test_the_bound_is_the_largest_size_that_is_read(tmp_path: Path) -> None:
    (tmp_path / "marked").write_bytes(b"\xef\xbb\xbf{}")
    assert read_text(tmp_path / "marked", 5, DataError) == "{}"
    with pytest.raises(DataError, match="over 4 bytes; split it"):
        read_text(tmp_path / "marked", 4, DataError)
