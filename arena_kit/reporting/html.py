"""The safe export: an executed notebook as one HTML file that runs nothing and asks nobody.

Outputs may quote models, so everything that arrives as HTML is cleaned, other active
formats are dropped, and a content security policy forbids script and requests as well.
"""

from __future__ import annotations

from copy import deepcopy
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from arena_kit.files import visible, write_text

_TEMPLATES = Path(__file__).parent / "template"
_LEAST_HEADINGS = 4  # that are worth a table of contents
_SAFE_TYPES = ("text/html", "image/png", "text/plain")
_STYLE_TAGS = {"div", "span", "table", "thead", "tbody", "tr", "th", "td", "p", "h3", "pre"}


def clean_html(text: str) -> str:
    """HTML without script, handlers, forms, frames, links out or remote images."""
    import nh3

    return nh3.clean(
        text,
        tags=_STYLE_TAGS
        | {"b", "i", "em", "strong", "small", "br", "ul", "ol", "li", "code", "details", "summary"},
        clean_content_tags={"script", "style", "title", "iframe", "object", "noscript"},
        attributes={
            "*": {"style", "class", "id", "title", "role", "aria-label"},
            "th": {"scope", "colspan", "rowspan"},
            "td": {"colspan", "rowspan", "headers"},
        },
        filter_style_properties=_STYLE_PROPERTIES,
        strip_comments=True,
    )


_STYLE_PROPERTIES = {
    "background-color", "border", "border-collapse", "border-radius",
    "border-bottom", "border-bottom-color", "border-bottom-style", "border-bottom-width",
    "border-left", "border-left-color", "border-left-style", "border-left-width",
    "border-right", "border-right-color", "border-right-style", "border-right-width",
    "border-top", "border-top-color", "border-top-style", "border-top-width", "color", "display",
    "font-family", "font-size", "font-style", "font-variant-numeric", "font-weight", "gap",
    "grid-template-columns", "line-height", "margin", "margin-bottom", "margin-left",
    "margin-right", "margin-top", "max-width", "overflow-x", "padding", "padding-bottom",
    "padding-left", "padding-right", "padding-top", "text-align", "text-transform",
    "vertical-align", "white-space", "width", "overflow-wrap",
}  # fmt: skip


def export_report(notebook: Path, target: Path) -> None:
    """Write an executed notebook as a self-contained HTML report, less the cells tagged
    `remove_cell`, which repeat a table as text for checks. No character turns the direction of
    writing: such ones are shown as their code points.
    """
    import nbformat
    from nbconvert import HTMLExporter
    from pygments.formatters import HtmlFormatter
    from traitlets.config import Config

    node = _inert(nbformat.read(notebook, as_version=4))  # type: ignore[no-untyped-call]
    _add_contents(node)
    exporter = HTMLExporter(  # type: ignore[no-untyped-call]
        config=Config(
            {
                "HTMLExporter": {"embed_images": False},
                "TagRemovePreprocessor": {"enabled": True, "remove_cell_tags": {"remove_cell"}},
            }
        ),
        template_name="arena_report",
        extra_template_basedirs=[str(_TEMPLATES)],
    )
    style = (_TEMPLATES / "arena_report" / "report.css").read_text(encoding="utf-8")
    code_style = HtmlFormatter(style="default").get_style_defs(".highlight")
    resources = {"include_css_text": style + code_style}
    body, _ = exporter.from_notebook_node(node, resources=resources)
    write_text(target, visible(body))


def _inert(node: Any) -> Any:
    """The notebook with every output reduced to text, pictures and cleaned HTML."""
    node = deepcopy(node)
    node.metadata.pop("widgets", None)
    for cell in node.cells:
        for output in cell.get("outputs", []):
            if "data" in output:
                kept = {k: v for k, v in output["data"].items() if k in _SAFE_TYPES}
                output["data"] = kept or {"text/plain": "(not shown: no safe form of this output)"}
                if "text/html" in output["data"]:
                    output["data"]["text/html"] = clean_html(output["data"]["text/html"])
    return node


def _add_contents(node: Any) -> None:
    """Put a folded table of contents under the first output, which is the answer."""
    from nbformat.v4 import new_markdown_cell

    texts = [cell.source for cell in node.cells if cell.cell_type == "markdown"]
    heads = [
        line.removeprefix("## ")
        for text in texts
        for line in text.splitlines()
        if line.startswith("## ")
    ]
    if len(heads) < _LEAST_HEADINGS:
        return
    items = "".join(f'<li><a href="#{_anchor(head)}">{escape(head)}</a></li>' for head in heads)
    contents = f"<details><summary>Contents</summary><ul>{items}</ul></details>"
    first = next((n for n, cell in enumerate(node.cells) if cell.get("outputs")), 0)
    node.cells.insert(first + 1, new_markdown_cell(contents))  # type: ignore[no-untyped-call]


def _anchor(heading: str) -> str:
    """The anchor that nbconvert gives a heading."""
    return escape(quote(heading.replace(" ", "-"), safe="?/:@!$&'()*+,;="))
