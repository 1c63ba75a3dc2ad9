"""The report: safe with hostile text, self-contained, and right in a real browser."""

import re
from pathlib import Path

import nbformat
import pytest
from nbformat import v4

from arena_kit.reporting.html import NARROW_TYPE, clean_html, export_report, on_a_site
from arena_kit.reporting.tables import Table
from tests.samples import HOSTILE, Elements


def hostile_notebook(path: Path) -> Path:
    """A notebook whose outputs carry hostile HTML in every form an output can take."""
    outputs = [v4.new_output("display_data", {"text/html": text}) for text in HOSTILE]
    outputs += [
        v4.new_output("stream", name="stdout", text="".join(HOSTILE)),
        v4.new_output("display_data", {"application/javascript": "document.title='PWNED'"}),
        v4.new_output("display_data", {"text/markdown": HOSTILE[1]}),
        v4.new_output("display_data", {"image/svg+xml": HOSTILE[2]}),
        v4.new_output("error", ename="E", evalue=HOSTILE[0], traceback=[HOSTILE[0], HOSTILE[1]]),
    ]
    node = v4.new_notebook(
        cells=[
            v4.new_markdown_cell("# Title\n\nstill here"),
            v4.new_code_cell("x = '</details><script>1</script>'", outputs=outputs),
        ],
        metadata={"title": "A <b>report</b>"},
    )
    nbformat.write(node, path)
    return path


@pytest.fixture
def report(tmp_path: Path) -> Path:
    target = tmp_path / "report.html"
    export_report(hostile_notebook(tmp_path / "hostile.ipynb"), target)
    return target


def test_nothing_active(report: Path) -> None:
    """No script, handler, frame, form, link or remote address survives as an element."""
    text = report.read_text()
    assert not [word for word in ('src="http', "<link", "@import") if word in text]
    body = Elements(text.split("<main>")[1])
    harmless = {"h1", "p", "div", "span", "pre", "details", "summary", "code", "a", "img"}
    assert body.tags <= harmless
    assert "details" in body.tags
    for name, value in body.attributes:
        assert not name.startswith("on"), (name, value)
        assert name not in ("src", "srcdoc", "action"), (name, value)
        assert name != "href" or value.startswith("#"), (name, value)
        assert "url(" not in value, (name, value)


def test_clean_keeps_tables() -> None:
    """Cleaning leaves our own tables as they are, styles included."""
    shown = Table(rows=[{"model": "<b>x</b>", "elo": 1400}])
    assert "&lt;b&gt;x" in shown.html
    cleaned = clean_html(shown.html)
    assert cleaned.count("<td") == 2
    assert "text-align" in cleaned


def test_no_text_turns_the_direction_of_writing(tmp_path: Path) -> None:
    """Bidirectional controls are shown as code points in every kind of output."""
    told = "user\u202egnp.exe\u2066x\u2069"
    table = Table(rows=[{"model": told}], title=told)
    outputs = [
        v4.new_output("display_data", {"text/html": table.html}),
        v4.new_output("display_data", {"text/html": "<p>&#8238;&rlm;entity</p>"}),
        v4.new_output("stream", name="stdout", text=told),
        v4.new_output("display_data", {"text/plain": told}),
    ]
    cells = [v4.new_markdown_cell(f"# {told}"), v4.new_code_cell("x", outputs=outputs)]
    text = exported(tmp_path, *cells)
    assert not re.search("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]", text)
    assert not re.search(r"&(#8238|#x202e|rlm|lrm);", text, re.IGNORECASE)
    assert text.count("user[U+202E]gnp.exe[U+2066]x[U+2069]") >= 5
    assert "[U+202E][U+200F]entity" in text


def test_a_report_has_a_table_of_contents(tmp_path: Path) -> None:
    """Every section of a report is linked under its first output, by an anchor that is there."""
    heads = ["Ranking", "Who is above whom?", "Leaderboard (Policy 5, 9.1)", "a <b>bold</b> & b"]
    sections = [v4.new_markdown_cell(f"## {head}\n\ntext") for head in heads]
    text = exported(
        tmp_path, v4.new_markdown_cell("# Title"), printed("1", "the answer"), *sections
    )
    contents = text.partition("<summary>Contents</summary>")[2].partition("</details>")[0]
    linked = re.findall(r'href="#([^"]+)"', contents)
    assert len(linked) == 4
    assert all(f'id="{anchor}"' in text for anchor in linked[:3])
    assert "&lt;b&gt;bold" in contents
    assert text.index("the answer") < text.index("Contents</summary>") < text.index("Policy 5")


def exported(folder: Path, *cells: nbformat.NotebookNode) -> str:
    nbformat.write(v4.new_notebook(cells=[*cells]), folder / "report.ipynb")
    export_report(folder / "report.ipynb", folder / "report.html")
    return (folder / "report.html").read_text()


def printed(source: str, text: str, *tags: str) -> nbformat.NotebookNode:
    outputs = [v4.new_output("stream", name="stdout", text=text)]
    return v4.new_code_cell(source, outputs=outputs, metadata={"tags": [*tags]})


def test_nothing_stands_between_title_and_answer(tmp_path: Path) -> None:
    """Parameters and the answer's code are one fold; a tagged section is one of its own."""
    text = exported(
        tmp_path,
        v4.new_markdown_cell("# Title"),
        v4.new_code_cell("given_first = 1"),
        v4.new_code_cell("given_then = 2"),
        printed("open_it()", "the answer"),
        printed("check_it()", "as text", "remove_cell"),
    )
    assert text.count('<details class="code">') == 1
    places = [text.index(word) for word in ("given_first", "given_then", "open_it", "the answer")]
    assert places == sorted(places)
    assert "as text" not in text
    text = exported(
        tmp_path,
        printed("1", "answer"),
        v4.new_markdown_cell("## More <i>of it</i>\n\nin short", metadata={"tags": ["folded"]}),
        printed("2", "hidden"),
        v4.new_markdown_cell("## Open"),
        printed("3", "seen"),
        v4.new_markdown_cell("## Last", metadata={"tags": ["folded"]}),
    )
    sections = text.split('<details class="section"')[1:]
    assert len(sections) == 2
    head = 'id="More-%3Ci%3Eof-it%3C/i%3E"><summary>More &lt;i&gt;of it&lt;/i&gt;</summary>'
    assert sections[0].strip().startswith(head)
    assert sections[0].index("in short") < sections[0].index("hidden") < sections[0].index("Open")
    assert text.count("</details>") == text.count("<details")
    assert "Last</summary>" in sections[1]


def test_a_picture_has_a_form_for_a_phone(tmp_path: Path) -> None:
    """A browser takes the narrow form up to 600 pixels, and no data leaves the attribute."""
    data = {"image/png": "AAAA", NARROW_TYPE: 'BBBB"><script>1</script>', "text/plain": "x"}
    about = {"image/png": {"width": 900, "alt": "It shows."}}
    cell = v4.new_code_cell("1", outputs=[v4.new_output("display_data", data, metadata=about)])
    page = Elements(exported(tmp_path, cell))
    shown = {
        ("media", "(max-width: 600px)"), ("srcset", f"data:image/png;base64,{data[NARROW_TYPE]}"),
        ("src", "data:image/png;base64,AAAA"), ("alt", "It shows."), ("width", "900"),
    }  # fmt: skip
    assert shown <= {*page.attributes}
    assert "script" not in page.tags
    assert {"picture", "source", "img"} <= page.tags


def test_the_way_to_the_site(tmp_path: Path) -> None:
    """The report of a record says which command makes its site, its name escaped and quoted."""
    record = tmp_path / "my <run>"
    record.mkdir()
    assert "arena-kit site" not in exported(record, printed("1", "answer"))
    (record / "manifest.json").write_text("{}")
    text = exported(record, printed("1", "answer"))
    command = "arena-kit site 'my &lt;run&gt;' --out site"
    assert f"To look into it further: <code>{command}</code></p>" in text
    linked = on_a_site(text, "index.html")
    assert 'To look into it further: <a href="index.html">the site of this run</a></p>' in linked
    assert "arena-kit site" not in linked
    assert "<body>an older report</body>" in on_a_site("an older report", "index.html")
