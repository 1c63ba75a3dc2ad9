"""Texts of models become HTML that is Markdown's and nothing else."""

from time import perf_counter

import pytest

from arena_kit.site.texts import LONGEST_MARKDOWN, plain, safe_html
from tests.samples import HOSTILE, Elements

TRICKS = [
    "[x](javascript:document.title='PWNED')",
    "[x](data:text/html,<script>document.title='PWNED'</script>)",
    "![x](http://127.0.0.1:9/beacon.png)",
    "<http://127.0.0.1:9/>",
    "[a](http://127.0.0.1:9/ \"t' onmouseover=document.title='PWNED'\")",
    "```<img src=x onerror=document.title='PWNED'>\nx\n```",
    "<details open ontoggle=\"document.title='PWNED'\">",
    "&lt;script&gt;document.title='PWNED'&lt;/script&gt;",
]


@pytest.mark.parametrize("text", [*HOSTILE, *TRICKS])
def test_nothing_active_comes_out(text: str) -> None:
    """No hostile text becomes a link, an image, a handler or a script."""
    found = Elements(safe_html(text))
    assert found.tags <= {"p", "span", "pre", "code"}
    assert all(name == "class" and value in ("link", "address") for name, value in found.attributes)


def test_markdown_is_markdown() -> None:
    """CommonMark comes out, addresses and controls as text, a megabyte as it is."""
    html = safe_html("# Title\n\n1. *one*\n2. `two`\n\n| a | b |\n|---|---|\n| 1 | **2** |\n")
    assert "<h4>Title</h4>" in html
    assert "<li><em>one</em></li>" in html
    assert "<code>two</code>" in html
    assert "<td><strong>2</strong></td>" in html
    html = safe_html("[click](https://a.example/x) ![cat](https://a.example/cat.png)")
    address = '<span class="address">(https://a.example/x)</span>'
    assert f'<span class="link">click</span> {address}' in html
    assert '[image: cat] <span class="address">(https://a.example/cat.png)</span>' in html
    html = safe_html("a\0b \u202ec \ud800d")
    assert "a[U+0000]b [U+202E]c ?d" in html
    assert plain("\u2066x") == "[U+2066]x"
    html = safe_html("<b>x</b> " * 120_000)
    assert html.startswith("<pre>&lt;b&gt;x")
    assert html.count("&lt;/b&gt;") == 120_000


FORMULAS = {
    r"so $e^{i\pi}=-1$.": "<msup><mi>e</mi>", r"\(a<b\)": "<mo>&lt;</mo>",
    "$$\n\\frac{1}{2}\n$$": '<math display="block"><mrow><mfrac>', r"\[\sqrt{x}\]": "<msqrt>",
    "it costs $5 and $10, or $5-$10": "$5 and $10, or $5-$10",
    r"$\text{<img src=x onerror=alert(1)>}$": "&lt;img&nbsp;src=x", r"$\frac$": r"$\frac$",
    "```python\nx = 'a<b'  # c\n```": '<span class="c"># c</span>',
}  # fmt: skip


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_are_mathml_and_code_is_coloured(text: str) -> None:
    """TeX becomes MathML without a script, an address or an event; money stays money."""
    found = Elements(safe_html(text))
    assert FORMULAS[text] in safe_html(text)
    assert not found.tags & {"img", "a", "script", "style", "svg", "semantics", "annotation-xml"}
    assert {name for name, _ in found.attributes} <= {"display", "class", "stretchy", "mathvariant"}


@pytest.mark.parametrize(
    "unit",
    ["[", "*a ", "> ", "`", "![](", "<", "- ", "|a", "_*", "1. ", "$a", "\\(", "$$x",
     pytest.param("$\\frac{a}", marks=pytest.mark.slow), "$\\frac{a}$" + "x" * 40],
)  # fmt: skip
def test_no_text_takes_long(unit: str) -> None:
    """Texts that nest as deep as they are long, or are full of formulas, take bearable time."""
    text = unit * (LONGEST_MARKDOWN // len(unit))
    start = perf_counter()
    safe_html(text)
    assert perf_counter() - start < 20
