"""The pictures of docs/gallery.md: `python docs/make_gallery.py` runs the sample and takes them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[1]
NOTEBOOKS = ("pilot", "k_sweep", "placement", "judge_report", "policy_validity")
SCREEN, SHOWN = (1280, 960), (800, 600)
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", f"--window-size={SCREEN[0]},{SCREEN[1]}",
]  # fmt: skip


def report(notebook: str, folder: Path) -> Path:
    """The report of a run on the sample."""
    words = ["-m", "arena_kit", "run", notebook, "--runs-dir", str(folder)]
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return Path(done.stdout.splitlines()[-1]) / "report.html"


def first_screen(page: Path, picture: Path, folder: Path) -> None:
    """What a browser shows of a page first, in few colours and so in few bytes."""
    full = folder / "full.png"
    profile = f"--user-data-dir={folder / 'profile'}"
    subprocess.run(
        ["chromium", *FLAGS, profile, f"--screenshot={full}", page.as_uri()],
        check=True, capture_output=True,
    )  # fmt: skip
    small = Image.open(full).convert("RGB").resize(SHOWN, Image.Resampling.LANCZOS)
    small.quantize(64, method=Image.Quantize.MAXCOVERAGE).save(picture, optimize=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        for notebook in NOTEBOOKS:
            page = report(notebook, Path(name))
            first_screen(page, ROOT / "docs" / "gallery" / f"{notebook}.png", Path(name))
