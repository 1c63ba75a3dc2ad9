"""One table in all its forms: what stands in it, how it is aligned, and that no text does harm."""

import csv
import io
import re
from html import unescape

import pytest

from arena_kit.reporting.tables import Shown, Table, facts, number, percent, span

LATEX = r"""\input{x} & 5% $y$ #1 _a_ {b} c~ d^ <e> f|g "h" – [i]"""
ESCAPED = (
    r"\textbackslash{}input\{x\} \& 5\% \$y\$ \#1 \_a\_ \{b\} c\textasciitilde{} "
    r"d\textasciicircum{} \textless{}e\textgreater{} f\textbar{}g \symbol{34}h\symbol{34} -- {[}i]"
)
NAMES = [LATEX, "<script>x</script>", "[red]x[/red]", "a|b `c` *d* [e](f)\n| next", '=1+"x", y']


def table(name: str = "ann") -> Table:
    """Two groups; a number, a text, nothing, and a cell with HTML of its own."""
    badge = Shown("<b>new</b> <span>Stable</span>", "new (Stable)")
    return Table(
        rows=[
            {"group": "taste", "model": name, "rating": 1400, "gap": "+3"},
            {"group": "taste", "model": "bob", "rating": 900, "gap": None},
            {"group": "smell", "model": badge, "rating": 1, "gap": "-12"},
        ],
        group="group",
        left=["model"],
        notes=[f"{name} is first."],
    )


def terminal(shown: Table) -> str:
    return shown.in_terminal(160)


def test_text() -> None:
    """Numbers stand right and text left, in the terminal too, where there is room."""
    assert table().text.splitlines() == [
        "group  model         rating  gap",
        "taste  ann             1400   +3",
        "       bob              900    –",
        "smell  new (Stable)       1  -12",
        "ann is first.",
    ]
    rows = [{"a": "x", "b": 5}, {"a": "long", "b": 10}]
    assert Table(rows=rows, title="T").text == "T\na      b\nx      5\nlong  10"
    assert facts({"votes": 12, "arena": "x"}, name="facts").text == "votes  12\narena  x"
    assert table().in_terminal(80).splitlines() == table().text.splitlines()[:-1]
    rows = [{"model": "a" * 14, "a long heading": 7, "said": "one two three four five\nsix"}]
    shown = Table(rows=rows, nowrap=["model"])
    assert shown.in_terminal(38).splitlines() == [
        "model            a long  said",
        "                heading",
        "aaaaaaaaaaaaaa        7  one two three",
        "                         four five",
        "                         six",
    ]


def test_html() -> None:
    """A cell is its own HTML, groups head their rows, and notes stand escaped under the table."""
    shown = table("a <b> name")
    html = shown.html
    assert "<b>new</b> <span>Stable</span></td>" in html
    assert "(Stable)" not in html
    heads = re.findall(r"<th [^>]*>([^<]*)</th>", html)
    assert heads == ["model", "rating", "gap", "taste", "smell"]
    sides = re.findall(r"<td [^>]*text-align: (\w+)[^>]*>", html.split("<tbody")[1])
    assert sides[:3] == ["left", "right", "right"]
    before, _, notes = html.partition("</table>")
    assert "overflow-x: auto" in before
    assert notes.index("</div>") < notes.index("a &lt;b&gt; name is first.</p>")
    assert shown._repr_mimebundle_() == {"text/html": html, "text/plain": shown.text}


def test_looks() -> None:
    """Bold, unbroken, marked and small are styles of the cells that were named."""
    rows = [{"a": "x", "b": "y"}, {"a": "u", "b": "v"}]

    def cells(**looks: object) -> list[str]:
        page = Table(rows=rows, **looks).html  # type: ignore[arg-type]
        return re.findall(r"<td [^>]*>", page)

    assert ["nowrap" in cell for cell in cells(nowrap=["b"])] == [False, True] * 2
    assert ["weight: 600" in cell for cell in cells(bold=["a"])] == [True, False] * 2
    assert ["#fdebd9" in cell for cell in cells(marked=1)] == [False, False, True, True]
    assert "font-size: 12px" in Table(rows=rows, small=True).html
    assert "<th " not in Table(rows=rows, labels=False).html


def test_csv() -> None:
    """CSV has no formula, Markdown its alignment, LaTeX no character that it would obey."""
    rows = [{"a": 0.1 + 0.2, "b": None, "c": Shown("<b>html</b>", "text")}]
    assert Table(rows=rows).csv == "a,b,c\n0.30000000000000004,,text\n"
    formula = Table(rows=[{"=a": "=1+1", "b": -1.5, "c": "-2.5", "d": Shown("<b>@x</b>", "@x")}])
    assert formula.csv == "'=a,b,c,d\n'=1+1,-1.5,-2.5,'@x\n"
    rows = [{"a": "x", "b": 5, "c": None}]
    shown = Table(rows=rows, title="T", notes=["a < b"])
    assert shown.markdown == (
        "**T**\n\n| a | b | c |\n| --- | ---: | ---: |\n| x | 5 | – |\n\na &lt; b\n"
    )
    latex = Table(rows=[{"group": LATEX, LATEX: LATEX, "n": 1}], group="group", notes=[LATEX]).latex
    assert latex.count(ESCAPED) == 4
    assert f"\n{ESCAPED} & {ESCAPED} & 1 \\\\\n" in latex
    assert "{llr}" in latex


@pytest.mark.parametrize("name", NAMES)
def test_hostile_names(name: str) -> None:
    """A name is text in every form: no tag, no markup, no further cell or line."""
    shown = table(name)
    assert "<script" not in shown.html
    cells = re.findall(r"<td [^>]*>(.*?)</td>", shown.html, re.DOTALL)
    assert (unescape(cells[0]), len(shown.text.splitlines())) == (name, 5)
    lines = shown.markdown.splitlines()[:5]
    assert {len(line.replace(r"\|", "").split("|")) for line in lines} == {6}
    assert "<" not in shown.markdown
    in_csv = f"'{name}" if name.startswith("=") else name
    assert next(csv.DictReader(io.StringIO(shown.csv)))["model"] == in_csv
    assert name.splitlines()[0] in terminal(shown)
    body = shown.latex.split("\n")
    assert len([line for line in body if line.replace(r"\&", "").count("&") == 3]) == 4


def test_no_rows() -> None:
    """Without rows a sentence or the heads stand; a number that is none is a dash."""
    assert Table(rows=[], empty="No <votes>.").html == "<p>No &lt;votes&gt;.</p>"
    assert str(Table(rows=[], empty="No votes.")) == "No votes."
    bare = Table(rows=[], columns=["rank"], notes=["Not rated on taste: only ties"])
    assert "rank" in bare.html
    assert bare.text.endswith("Not rated on taste: only ties")
    assert bare.csv.count("\n") == 1
    assert (number(2.5, ".2f"), number(3, "", "%"), percent(0.125, ".1f")) == (
        "2.50",
        "3%",
        "12.5%",
    )
    assert {number(None, ".2f"), number(float("nan"), ".2f"), percent(None)} == {"–"}
    assert (span(1, 2.6), span(None, 2), span(1, None)) == ("1 to 3", "at most 2", "at least 1")
