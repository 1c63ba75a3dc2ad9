"""Texts of models and people as HTML that runs nothing, fetches nothing and leads nowhere, and
names as files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from arena_kit.files import visible, whole_text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

#: Longer texts are shown as they are: parsing Markdown may take time that grows with the square.
LONGEST_MARKDOWN = 30_000
_TAGS = {
    "p", "br", "hr", "h4", "h5", "h6", "em", "strong", "s", "code", "pre", "blockquote",
    "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "span",
}  # fmt: skip
_CLASSES = {"link", "address"}


def plain(value: object) -> str:
    """Any value as text that every encoding takes and no browser obeys."""
    return visible(whole_text(str(value)))


def slug(name: str) -> str:
    """A name as a folder or file of its own on every system; what had to be replaced in it is told
    apart by a hash.
    """
    if re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{re.sub(r'[^a-z0-9]+', '-', name.lower())[:40].strip('-')}-{digest}".lstrip("-")


def safe_html(text: str) -> str:
    """Markdown as HTML; markup in it is shown as text, and so are addresses, which lead nowhere."""
    import nh3

    shown = plain(text)
    if len(shown) > LONGEST_MARKDOWN:
        return f"<pre>{escape(shown)}</pre>"
    return nh3.clean(
        _markdown().render(shown),
        tags=_TAGS,
        attributes={"ol": {"start"}},
        allowed_classes={"span": _CLASSES},
        strip_comments=True,
    )


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.add_render_rule("link_open", _link_open)
    parser.add_render_rule("link_close", _link_close)
    parser.add_render_rule("image", _image)
    parser.add_render_rule("heading_open", _heading)
    parser.add_render_rule("heading_close", _heading)
    return parser


def _link_open(_: object, tokens: Sequence[Token], at: int, _options: Any, env: Any) -> str:
    env.setdefault("addresses", []).append(str(tokens[at].attrGet("href")))
    return '<span class="link">'


def _link_close(_: object, tokens: Sequence[Token], at: int, _options: Any, env: Any) -> str:
    address = env["addresses"].pop()
    return f"</span>{'' if tokens[at - 1].content == address else _address(address)}"


def _image(_: object, tokens: Sequence[Token], at: int, _options: Any, _env: Any) -> str:
    return f"[image: {escape(tokens[at].content)}]{_address(str(tokens[at].attrGet('src')))}"


def _address(address: str) -> str:
    return f' <span class="address">({escape(address)})</span>'


def _heading(_: object, tokens: Sequence[Token], at: int, _options: Any, _env: Any) -> str:
    """Headings of a text stand below those of the page around it."""
    token = tokens[at]
    tag = f"h{min(6, int(token.tag[1]) + 3)}"
    return f"<{tag}>" if token.nesting == 1 else f"</{tag}>\n"
