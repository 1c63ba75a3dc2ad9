"""Texts of models and people as HTML that runs nothing, fetches nothing and leads nowhere, and
names as files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape, unescape
from itertools import count, groupby
from typing import TYPE_CHECKING, Any

from arena_kit.battles.content import Conversation, Part, data_url, numbered
from arena_kit.files import visible, whole_text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

#: Longer texts are shown as they are: parsing Markdown may take time that grows with the square.
LONGEST_MARKDOWN = 30_000
_TAGS = {
    "p", "br", "hr", "h4", "h5", "h6", "em", "strong", "s", "code", "pre", "blockquote",
    "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "span",
}  # fmt: skip
_MATHML = {*(
    "math mrow mi mn mo ms mtext mspace mfrac msqrt mroot msub msup msubsup mmultiscripts mover "
    "munder munderover mtable mtr mtd mpadded mphantom menclose"
).split()}  # fmt: skip
_MATHML_ATTRIBUTES = {
    "math": {"display"}, "mo": {"stretchy", "fence", "form", "movablelimits", "lspace", "rspace"},
    "mi": {"mathvariant"}, "mtable": {"columnalign"}, "mfrac": {"linethickness"},
    "mspace": {"width"}, "mover": {"accent"}, "menclose": {"notation"},
}  # fmt: skip
#: Maths as TeX and Markdown mark it; a dollar before a blank, or after one, is money.
_MATHS = re.compile(
    r"\\\((.{1,2000}?)\\\)|\\\[(.{1,2000}?)\\\]|\$\$(.{1,2000}?)\$\$"
    r"|\$(?![\s$])([^$\n]{0,500}?[^$\s\\])\$(?!\d)",
    re.DOTALL,
)
_LONGEST_CODE = 20_000
#: Languages whose lexers take hostile code in bearable time.
_LANGUAGES = {*(
    "python py r json javascript js typescript ts bash sh sql java c cpp go rust yaml html xml css"
).split()}  # fmt: skip
#: What code is coloured by (keyword, string, number, comment): first letters of Pygments' classes.
_CODE = {"k", "s", "m", "c"}
_CLASSES = {"link", "address", *_CODE}


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
    """Markdown as HTML; markup in it is shown as text, and so are addresses, which lead nowhere.
    TeX formulas become MathML, which browsers draw by themselves, and code is coloured. Of a
    conversation, each message is a section.
    """
    if not isinstance(text, Conversation):
        return _markdown_html(text)
    sections, images = [], count(1)
    said = groupby(numbered(text.messages), lambda each: (each[0], each[1].role))
    for (turn, role), messages in said:
        parts = "".join(_part_html(p, text, images) for _, each in messages for p in each.parts)
        who = f'<p class="role">{_ROLE_NAMES[role]}, turn {turn}</p>'
        alone = len(text.messages) == 1
        sections.append(f'<section class="turn {role}">{"" if alone else who}{parts}</section>')
    return "".join(sections)


#: What the sides of a conversation are called on pages, alike for every model.
_ROLE_NAMES = {"system": "System", "user": "User", "assistant": "Response"}


def _part_html(part: Part, text: Conversation, images: Iterator[int]) -> str:
    """A part: tool calls and reasoning are folded, an image opens at a click."""
    if part.kind == "image":
        address = data_url(part.name, text.pictures[part.name])
        shown = f'<img src="{address}" alt="image {next(images)}, click to enlarge">'
        return f'<details class="zoom"><summary>{shown}</summary></details>'
    if part.kind == "text":
        return _markdown_html(part.text)
    title, texts = "Reasoning", [part.text]
    if part.kind == "tool_call":
        title = f"Tool call: {escape(plain(part.name))}"
        texts = [part.text, "no result" if part.result is None else part.result]
    inner = "".join(f"<pre>{escape(plain(each))}</pre>" for each in texts)
    return f"<details><summary>{title}</summary>{inner}</details>"


def _markdown_html(text: str) -> str:
    import nh3

    shown = plain(text)
    if len(shown) > LONGEST_MARKDOWN:
        return f"<pre>{escape(shown)}</pre>"
    return nh3.clean(
        _markdown().render(shown),
        tags=_TAGS | _MATHML,
        attributes={"ol": {"start"}, **_MATHML_ATTRIBUTES},
        allowed_classes={"span": _CLASSES},
        strip_comments=True,
    )


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    options = {"html": False, "highlight": _highlighted}
    parser = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    parser.inline.ruler.before("escape", "math", _math)
    rules = {"math": _formula, "image": _image, "link_open": _link_open, "link_close": _link_close}
    for name, rule in (rules | dict.fromkeys(("heading_open", "heading_close"), _heading)).items():
        parser.add_render_rule(name, rule)
    return parser


def _math(state: StateInline, silent: bool) -> bool:
    """A formula that begins here becomes a token."""
    found = _MATHS.match(state.src, state.pos) if state.src[state.pos] in "\\$" else None
    if found is None:
        return False
    if not silent:
        token = state.push("math", "math", 0)
        token.content = next(part for part in found.groups() if part is not None)
        token.markup = found[0]
        token.block = found[2] is not None or found[3] is not None
    state.pos = found.end()
    return True


def _formula(_: object, tokens: Sequence[Token], at: int, _options: Any, _env: Any) -> str:
    """A formula as MathML; what cannot be read stays as it was written."""
    from xml.etree.ElementTree import tostring

    from latex2mathml.converter import convert_to_element

    token = tokens[at]
    try:
        formula = convert_to_element(token.content, display="block" if token.block else "inline")
        for element in formula.iter():
            element.text = element.text and unescape(element.text)
        return tostring(formula, encoding="unicode")
    except (Exception, RecursionError):  # of a parser that is given any text
        return f"<code>{escape(token.markup)}</code>"


def _highlighted(code: str, language: str, _attributes: str) -> str:
    """Code of a known language with its parts marked; '' leaves it as it is."""
    if language.lower() not in _LANGUAGES or len(code) > _LONGEST_CODE:
        return ""
    from pygments.lexers import get_lexer_by_name
    from pygments.token import STANDARD_TYPES

    parts = []
    for kind, text in get_lexer_by_name(language.lower()).get_tokens(code):
        mark = STANDARD_TYPES.get(kind, "")[:1]
        marked = mark in _CODE and text.strip()
        parts.append(f'<span class="{mark}">{escape(text)}</span>' if marked else escape(text))
    return "".join(parts)


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
