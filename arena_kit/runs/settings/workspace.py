"""A fresh workspace from an installed package, and JupyterLab in one."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from arena_kit.files import DataError

START = "start_here.ipynb"
PARTS = ("notebooks", "params", "sample", "docs", "design", START)
#: What stands beside them in a checkout and is of no use in a workspace.
_IGNORED = (".ipynb_checkpoints", "__pycache__", "conf.py", "make_*.py", "_[a-z]*")


def source_folder() -> Path:
    """Where the shipped parts are: inside the wheel, or the checkout of an editable install."""
    package = Path(__file__).parents[2]
    for folder in (package / "_workspace", package.parent):
        if all((folder / part).exists() for part in PARTS):
            return folder
    raise DataError(f"{package}: this installation has no notebooks, params and sample to copy")


def init_workspace(target: Path) -> list[Path]:
    """Copy the shipped parts into a new or empty folder; returns what was made."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise DataError(f"{target}: exists and is not an empty folder")
    source = source_folder()
    target.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        if (source / part).is_file():
            shutil.copy(source / part, target / part)
        else:
            left_out = shutil.ignore_patterns(*_IGNORED)
            shutil.copytree(source / part, target / part, ignore=left_out)
    ignored = ".arena_kit/\n.env\nruns/\n.ipynb_checkpoints/\n"
    (target / ".gitignore").write_text(ignored, encoding="utf-8")
    return [target / part for part in PARTS]


def lab_command(root: Path, more: Sequence[str] = ()) -> list[str]:
    """The command that opens JupyterLab at a workspace's root, on its first notebook where it has
    one; `more` are options of JupyterLab.
    """
    if importlib.util.find_spec("jupyterlab") is None:
        raise DataError(
            "JupyterLab is not installed here; install it with: pip install 'arena-kit[lab]'"
        )
    first = f"/tree/{START}" if (root / START).is_file() else ""
    options = [f"--ServerApp.root_dir={root}", f"--LabApp.default_url=/lab{first}"]
    return [sys.executable, "-m", "jupyterlab", *options, *more]


def open_lab(root: Path, more: Sequence[str] = ()) -> None:
    """Become JupyterLab; its kernels are this environment's Python."""
    command = lab_command(root, more)
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    os.chdir(root)
    os.execv(command[0], command)  # noqa: S606 (fixed words, no shell)
