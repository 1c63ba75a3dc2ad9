"""Figures on their way into a record and a notebook."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from arena_kit.store import whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Picture:
    """A saved figure; `alt` says in words what it shows."""

    path: Path
    width: int
    alt: str

    def _repr_mimebundle_(self, **_: object) -> tuple[dict[str, str], dict[str, object]]:
        data = base64.b64encode(self.path.read_bytes()).decode()
        bundle = {"image/png": data, "text/plain": self.alt}
        return bundle, {"image/png": {"width": self.width, "alt": self.alt}}


def save_picture(figure: Figure, path: Path, alt: str) -> Picture:
    """Write a figure as PNG, the same bytes for the same figure, and return it."""
    with whole_file(path) as part:
        figure.savefig(part, format="png", metadata={"Software": None})
    return Picture(path, int(figure.get_figwidth() * 100), alt)
