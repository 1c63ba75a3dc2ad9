"""How values are shown: one table, and numbers in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_kit.rating.base import Rating

if TYPE_CHECKING:
    import pandas as pd
    from great_tables import GT


DASH = "–"


@dataclass(frozen=True, slots=True)
class Shown:
    """Something to display: HTML for notebooks, the same content as text elsewhere."""

    html: str
    text: str

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}

    def __str__(self) -> str:
        return self.text


def table(
    frame: pd.DataFrame,
    *,
    name: str,
    title: str = "",
    group: str | None = None,
    style: Callable[[GT], GT] = lambda gt: gt,
) -> Shown:
    """A frame as an escaped, static table; numbers align right, text left."""
    from great_tables import GT

    gt = GT(frame, groupname_col=group, id=name)
    if title:
        gt = gt.tab_header(title=title)
    gt = gt.tab_options(
        table_font_size="14px",
        table_margin_left="0px",
        heading_align="left",
        heading_title_font_size="15px",
        data_row_padding="5px",
        column_labels_font_weight="600",
        row_group_font_weight="600",
        row_group_background_color="#f6f8fa",
        table_border_top_style="none",
        heading_border_bottom_style="none",
        source_notes_font_size="12px",
    ).opt_horizontal_padding(1.6)
    html = style(gt).as_raw_html(inline_css=True)
    return Shown(html, frame.to_string(index=False))


def said(sentence: str) -> Shown:
    """A sentence where there is no table to show."""
    return Shown(f"<p>{escape(sentence)}</p>", sentence)


def percent(value: float | None, how: str = ".0f") -> str:
    """A share as a percentage, a dash where there is none."""
    return DASH if value is None else f"{100 * value:{how}}%"


def facts(rows: Mapping[str, object], *, name: str) -> Shown:
    """Named facts, one per line."""
    import pandas as pd
    from great_tables import loc, style

    frame = pd.DataFrame({"what": list(rows), "value": [str(value) for value in rows.values()]})

    def look(gt: GT) -> GT:
        bold = gt.tab_style(style.text(weight="600"), loc.body(columns="what"))
        return bold.tab_options(column_labels_hidden=True)

    return table(frame, name=name, style=look)


def interval_text(rating: Rating) -> str:
    """The 95 % interval in words."""
    if rating.ci_low is None or rating.ci_high is None:
        return DASH
    return f"{rating.ci_low:.0f} to {rating.ci_high:.0f}"


def files(folder: Path, root: Path) -> Shown:
    """The artifacts of a record with their sizes."""
    import pandas as pd

    shown = folder.relative_to(root) if folder.is_relative_to(root) else folder
    rows: list[dict[str, Any]] = [
        {"file": str(shown / path.relative_to(folder)), "size": _size(path.stat().st_size)}
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    ]
    return table(pd.DataFrame(rows), name="files")


def _size(n: int) -> str:
    return f"{n} B" if n < 1000 else f"{n / 1000:.0f} kB" if n < 1e6 else f"{n / 1e6:.1f} MB"
