"""Guards for the layout: the package list, the import guards, the start-up cost."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import resources
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FOLDERS: dict[str, str] = PROJECT["tool"]["setuptools"]["package-dir"]


def test_every_package_folder_is_listed() -> None:
    found = set()
    for package, folder in FOLDERS.items():
        for marker in (ROOT / folder).rglob("__init__.py"):
            inner = marker.parent.relative_to(ROOT / folder).parts
            found.add(".".join([package, *inner]))
    assert found == set(PROJECT["tool"]["setuptools"]["packages"])


@pytest.mark.parametrize("folder", ["train", "eval", "gateway", "data_gen", "runtime", "configs"])
def test_folders_refuse_to_be_imported_by_their_bare_name(folder: str) -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {folder}"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "import breadcrumbs" in result.stderr.splitlines()[-1]


def test_configs_travel_with_the_package() -> None:
    root = resources.files("breadcrumbs.configs")
    assert (root / "generate" / "demo.yaml").is_file()
    assert (root / "catalogs" / "automation.yaml").is_file()


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from breadcrumbs.cli import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit:\n    pass\n"
        "heavy = {'torch', 'transformers', 'trl', 'datasets', 'fastapi', 'numpy', 'pydantic'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "[]"
    assert "train" in result.stdout
