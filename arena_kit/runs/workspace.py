"""A fresh workspace from an installed package: notebooks, parameters and the sample."""

from __future__ import annotations

import shutil
from pathlib import Path

from arena_kit.files import DataError

PARTS = ("notebooks", "params", "sample")
_IGNORED = ".ipynb_checkpoints"


def source_folder() -> Path:
    """Where the shipped parts are: inside the wheel, or the checkout of an editable install."""
    package = Path(__file__).parents[1]
    for folder in (package / "_workspace", package.parent):
        if all((folder / part).is_dir() for part in PARTS):
            return folder
    raise DataError(f"{package}: this installation has no notebooks, params and sample to copy")


def init_workspace(target: Path) -> list[Path]:
    """Copy the shipped parts into a new or empty folder; returns what was made."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise DataError(f"{target}: exists and is not an empty folder")
    source = source_folder()
    target.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        shutil.copytree(
            source / part, target / part, ignore=shutil.ignore_patterns(_IGNORED, "__pycache__")
        )
    ignored = ".arena_kit/\n.env\nruns/\n.ipynb_checkpoints/\n"
    (target / ".gitignore").write_text(ignored, encoding="utf-8")
    return [target / part for part in PARTS]
