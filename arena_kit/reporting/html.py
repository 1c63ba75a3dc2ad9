"""The safe export: an executed notebook as one HTML file that runs nothing and asks nobody.

Outputs may quote models, so everything that arrives as HTML is cleaned, other active
formats are dropped, and a content security policy forbids script and requests as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from html import escape, unescape
from pathlib import Path
from shlex import quote as quoted
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from arena_kit.files import visible, write_text

if TYPE_CHECKING:
    from jinja2 import Environment

#: What a notebook calls the narrow form of a picture; only our own export shows it.
NARROW_TYPE = "application/vnd.arena-kit.narrow+png"
#: What a judge's level looks like: trusted, usable with caution, not usable.
LEVEL_COLOURS = {
    "trusted": "#1a7f37", "usable with caution": "#9a6700", "not usable": "#b42318",
}  # fmt: skip
_TEMPLATES = Path(__file__).parent / "template"
_MANIFEST = "manifest.json"
_SITE_BEGINS = '<p class="site">'
_REFERENCE = re.compile("&(?:#[0-9a-zA-Z]+|lrm|rlm);?")  # that may turn the direction of writing
_LEAST_HEADINGS = 4  # that are worth a table of contents
_SAFE_TYPES = ("text/html", "image/png", NARROW_TYPE, "text/plain")
_TAGS = {
    "div", "span", "table", "thead", "tbody", "tr", "th", "td", "p", "h3", "pre", "b", "i", "em",
    "strong", "small", "br", "ul", "ol", "li", "code", "details", "summary", "img",
}  # fmt: skip
#: What a report has beside them: its headings, contents and figures.
_PICTURE = r"data:image/(?:png|jpeg|svg\+xml);base64,[A-Za-z0-9+/=\n]*"
_OF_A_REPORT: Mapping[str, set[str]] = {
    "a": {"href"}, "h1": set(), "h2": set(), "main": set(), "picture": set(),
    "source": {"media", "srcset"},
}  # fmt: skip


def rendered(template: str, **values: object) -> str:
    """The HTML of a template for something to display; every text is escaped, and None a dash."""
    return _display_templates().get_template(f"{template}.html.j2").render(values)


@cache
def _display_templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(_TEMPLATES / "display"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: "–" if value is None else value,
    )


def clean_html(text: str, more: Mapping[str, set[str]] = MappingProxyType({})) -> str:
    """HTML without script, handlers, forms, frames, links out or remote images; `more` elements
    may be in it with these attributes.
    """
    import nh3

    return nh3.clean(
        text,
        tags=_TAGS | more.keys(),
        clean_content_tags={"script", "style", "title", "iframe", "object", "noscript"},
        attributes={
            "*": {"style", "class", "id", "title", "role", "aria-label"},
            "img": {"src", "alt", "width"},
            "th": {"scope", "colspan", "rowspan"},
            "td": {"colspan", "rowspan", "headers"},
            **more,
        },
        attribute_filter=_inert_value,
        filter_style_properties=_STYLE_PROPERTIES,
        strip_comments=True,
        url_schemes={"data"},
        link_rel=None,
    )


def _inert_value(_tag: str, attribute: str, value: str) -> str | None:
    """The value of an attribute; no address but an anchor of the page or a picture in it."""
    allowed = {"href": "#.*", "src": _PICTURE, "srcset": _PICTURE}.get(attribute)
    return value if allowed is None or re.fullmatch(allowed, value, re.DOTALL) else None


_SIDES = ("-bottom", "-left", "-right", "-top")
_STYLE_PROPERTIES = {
    "background-color", "border", "border-collapse", "border-radius", "color", "display",
    "font-family", "font-size", "font-style", "font-variant-numeric", "font-weight", "gap",
    "grid-template-columns", "line-height", "max-width", "overflow-wrap", "overflow-x",
    "text-align", "text-transform", "vertical-align", "white-space", "width",
    *(f"{what}{side}" for what in ("margin", "padding") for side in ("", *_SIDES)),
    *(f"border{side}{part}" for side in _SIDES for part in ("", "-color", "-style", "-width")),
}  # fmt: skip


def export_report(notebook: Path, target: Path) -> None:
    """Write an executed notebook as a self-contained HTML report: the output of the cell tagged
    `answer` first, sections whose heading is tagged `folded` closed, and without the cells tagged
    `remove_cell`, which repeat a table as text for checks. No character turns the direction of
    writing: such ones are shown as their code points.
    """
    import nbformat
    from nbconvert import HTMLExporter, TemplateExporter
    from nbconvert.filters import Highlight2HTML
    from traitlets.config import Config

    node = _inert(nbformat.read(notebook, as_version=4))  # type: ignore[no-untyped-call]
    _open_with_the_answer(node, target)
    _fold(node)
    coloured = Highlight2HTML(pygments_lexer="ipython3")  # type: ignore[no-untyped-call]
    exporter = HTMLExporter(  # type: ignore[no-untyped-call]
        config=Config({"HTMLExporter": {"embed_images": False}}),
        template_name="arena_report",
        extra_template_basedirs=[str(_TEMPLATES)],
        filters={"highlight_code": coloured},
    )
    # HTMLExporter would parse the whole page again, for pictures without a text; ours have one
    body, _ = TemplateExporter.from_notebook_node(exporter, node, {"include_css_text": _style()})
    write_text(target, _REFERENCE.sub(lambda ref: escape(visible(unescape(ref[0]))), visible(body)))


@cache
def _style() -> str:
    from pygments.formatters import HtmlFormatter

    style = (_TEMPLATES / "arena_report" / "report.css").read_text(encoding="utf-8")
    return str(style + HtmlFormatter(style="default").get_style_defs(".highlight"))


def _inert(node: Any) -> Any:
    """The notebook without the cells that only checks read, every output reduced to text, pictures
    and cleaned HTML.
    """
    node = deepcopy(node)
    node.metadata.pop("widgets", None)
    node.cells = [cell for cell in node.cells if "remove_cell" not in _tags(cell)]
    for cell in node.cells:
        for output in cell.get("outputs", []):
            if "data" in output:
                kept = {k: v for k, v in output["data"].items() if k in _SAFE_TYPES}
                output["data"] = kept or {"text/plain": "(not shown: no safe form of this output)"}
                if "text/html" in output["data"]:
                    output["data"]["text/html"] = clean_html(output["data"]["text/html"])
    return node


def _tags(cell: Any) -> list[str]:
    return list(cell.metadata.get("tags", []))


def _open_with_the_answer(node: Any, target: Path) -> None:
    """Put the outputs of the cell tagged `answer` (else the first output) under the title, then
    what the report is about, the contents and the way to the site. The code before the first output
    joins that output's.
    """
    from nbformat.v4 import new_markdown_cell

    shown = [cell for cell in node.cells if cell.get("outputs")]
    if not shown:
        return
    answer = next((cell for cell in shown if "answer" in _tags(cell)), shown[0])
    first = node.cells.index(shown[0])
    before = [cell for cell in node.cells[:first] if cell.cell_type == "code"]
    shown[0].source = "\n\n".join(cell.source for cell in (*before, shown[0]))
    under = _contents(node) + (_site_line(target) if (target.parent / _MANIFEST).is_file() else "")
    end = next(n for n, cell in enumerate(node.cells) if _heading(cell) or cell.get("outputs"))
    opening = "\n\n".join(c.source for c in node.cells[:end] if c.cell_type != "code")
    title, _, about = opening.partition("\n")
    top, *added = (
        new_markdown_cell(text)  # type: ignore[no-untyped-call]
        for text in (title, about.strip(), under)
        if text or text is title
    )
    rest = [cell for cell in node.cells[end:] if cell is not answer and cell not in before]
    node.cells = [top, answer, *added, *rest]


def _contents(node: Any) -> str:
    """A folded table of contents; none of a short report."""
    heads = [_heading(cell) for cell in node.cells]
    items = [f'<li><a href="#{_anchor(head)}">{escape(head)}</a></li>' for head in heads if head]
    if len(items) < _LEAST_HEADINGS:
        return ""
    return f"<details><summary>Contents</summary><ul>{''.join(items)}</ul></details>"


def _heading(cell: Any) -> str:
    """The heading of the section that a cell begins; empty where it begins none."""
    line = cell.source.partition("\n")[0] if cell.cell_type == "markdown" else ""
    return str(line[3:]) if line.startswith("## ") else ""


def _site_line(target: Path) -> str:
    """How to look into this run further; `on_a_site` makes a link of it."""
    command = escape(f"arena-kit site {quoted(target.parent.name)} --out site", quote=False)
    return f"{_SITE_BEGINS}To look into it further: <code>{command}</code></p>"


def on_a_site(report: str, page: str) -> str:
    """A report, cleaned and under our own head and policy, for a record may be somebody else's;
    with a link to a page of its site in place of the command that makes one.
    """
    before, begins, rest = clean_html(report, _OF_A_REPORT).partition(_SITE_BEGINS)
    if begins:
        link = f'<a href="{escape(page)}">the site of this run</a>'
        rest = f"To look into it further: {link}</p>{rest.partition('</p>')[2]}"
    title = unescape(report.partition("<title>")[2].partition("</title>")[0])[:200]
    body = f"{before}{begins}{rest}"
    return visible(rendered("report", title=title, style=_style(), body=body))


def _fold(node: Any) -> None:
    """Mark the cells at which a folded section, one whose heading is tagged so, begins and ends."""
    last = None
    for cell in node.cells:
        if head := _heading(cell):
            last = None
            if "folded" in _tags(cell):
                cell.source = cell.source.partition("\n")[2].strip()
                cell.metadata["fold"] = {"heading": head, "anchor": _anchor(head)}
                last = cell
        elif last is not None:
            last.metadata.pop("fold_ends", None)
            last = cell
        if last is not None:
            last.metadata["fold_ends"] = True


def _anchor(heading: str) -> str:
    """The anchor that nbconvert gives a heading."""
    return escape(quote(heading.replace(" ", "-"), safe="?/:@!$&'()*+,;="))
