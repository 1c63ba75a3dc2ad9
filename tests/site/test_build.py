"""The folder of a site: what it holds of each kind of record, and what it never touches."""

import json
import re
import shutil
from html import unescape
from pathlib import Path

import pytest

from arena_kit import Board, DataError, open_run
from arena_kit.files import file_hash
from arena_kit.runs.record.inputs import battles_of
from arena_kit.site.build import LIST, build_site
from arena_kit.site.pages import boards_of
from arena_kit.site.reading import ReadBattle, reading_of
from arena_kit.site.texts import safe_html, slug
from tests.samples import Elements, log_of
from tests.site.handmade import Handmade

SMALL = Handmade(
    models={"ash": "ash", "beech": "beech"}, prompts={f"q{n}": f"Question {n}?" for n in range(3)}
)


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return SMALL.write(tmp_path / "runs" / "one")


def test_a_site_made_again_has_what_its_records_give(record: Path, tmp_path: Path) -> None:
    """The same records give the same but for a fresh nonce; made of others, old pages go, and
    what somebody changed stays.
    """
    out, other = tmp_path / "out", SMALL.write(tmp_path / "runs" / "two")
    build_site([record, other], out)
    before, nonce = contents(out), nonce_of(out)
    mine = {"CNAME": b"example.org", "one/mine.txt": b"mine"}
    for name, text in mine.items():
        (out / name).write_bytes(text)
    build_site([record, other], out)
    assert nonce_of(out) != nonce
    again = contents(out)
    assert {name for name in before if again[name] != before[name]} <= {
        LIST, *(name for name, text in before.items() if nonce.encode() in text)
    }  # fmt: skip
    assert again.keys() == before.keys() | mine
    (out / "one" / "report.html").write_text("changed")
    build_site([other], out)
    build_site([other], tmp_path / "alone")
    assert {*contents(out)} == {*contents(tmp_path / "alone"), *mine, "one/report.html"}


def nonce_of(out: Path) -> str:
    return re.findall("nonce-([^']+)'", (out / "index.html").read_text())[0]


def test_nothing_outside_the_folder_is_touched(record: Path, tmp_path: Path) -> None:
    """A linked folder or file, listed or not, makes a site refuse: nothing there changes."""
    private, out = tmp_path / "private", tmp_path / "out"
    private.mkdir()
    (private / "index.html").write_text("mine")
    for listed in ({"one/index.html": [file_hash(private / "index.html")]}, {}):
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        (out / "one").symlink_to(private)
        (out / LIST).write_text(json.dumps({"files": listed}))
        for records in ([], [record]) if listed else ([record],):
            with pytest.raises(DataError, match="not a file of this folder"):
                build_site(records, out)
    assert contents(private) == {"index.html": b"mine"}


@pytest.mark.parametrize("name", ["report.html", "board.json", "verdicts/more.jsonl", ".lock"])
def test_a_record_with_a_link_is_not_shown(record: Path, tmp_path: Path, name: str) -> None:
    """What a link in a record leads to is not published, read or rated."""
    private = tmp_path / "private.txt"
    private.write_text("PRIVATE")
    (record / name).unlink(missing_ok=True)
    (record / name).symlink_to(private)
    built = build_site([record], tmp_path / "out")
    assert "a link, and a record holds none" in built.without_board["one"]
    assert not any(b"PRIVATE" in text for text in contents(tmp_path / "out").values())
    for read in (open_run, reading_of, battles_of, Board.read):
        with pytest.raises(DataError, match=f"{name}: a link"):
            read(record)


def test_a_foreign_folder_is_refused(record: Path, tmp_path: Path) -> None:
    """A folder with files of its own, a file, and a page that somebody wrote are left alone."""
    out, site, victim = tmp_path / "out", tmp_path / "site", tmp_path / "victim.txt"
    out.mkdir()
    (out / "thesis.tex").write_text("x")
    twin = shutil.copytree(record, tmp_path / "elsewhere" / "one")

    def refused(records: list[Path], folder: Path, why: str) -> None:
        with pytest.raises(DataError, match=why):
            build_site(records, folder)

    refused([record], out, "holds files of its own")
    refused([record], out / "thesis.tex", "this is a file")
    refused([record, twin], tmp_path / "new", "another run of this name is included")
    assert contents(out) == {"thesis.tex": b"x"}
    build_site([], site)
    (site / "one").mkdir()
    (site / "one" / "index.html").write_text("mine")
    refused([record], site, "not made by arena-kit site")
    assert (site / "one" / "index.html").read_text() == "mine"
    victim.write_text("x")
    for name in ("../victim.txt", str(victim)):
        (site / LIST).write_text(json.dumps({"files": {name: []}}))
        refused([record], site, "not a file of this folder")
    assert victim.exists()


def test_names_are_safe_files() -> None:
    """Plain names stay, others get a hash, and no two names share a file on any system."""
    names = ["gpt-4.1", "GPT-4.1", "a/b", "a b", "../x", "..", ".", "CON", "é", "x" * 300, "<b>"]
    slugs = [slug(name) for name in names]
    assert slugs[0] == "gpt-4.1"
    assert len({each.lower() for each in slugs}) == len(names)
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", each) for each in slugs)


def test_every_kind_of_record_is_listed(site: Path, workspace_of_runs: Path) -> None:
    """The first page links every record or says why not; a reader holds each text once."""
    index = (site / "index.html").read_text()
    for run in ("pilot", "hashes", "placed", "policy"):
        assert f'href="{run}/index.html"' in index
    for words in ("broken", "not valid JSON", "DataError: no such prompt"):
        assert words in index
    assert index.count("votes: simulated, no person voted") == 2
    assert str(site.parent) not in index
    assert not (site / "broken").exists()
    page = unescape((site / "pilot" / "index.html").read_text())
    said = json.loads((workspace_of_runs / "runs/pilot/answer.json").read_text())["said"]
    assert any("compares words, not meaning" in sentence for sentence in said)
    assert [sentence for sentence in said if sentence not in page] == []
    reader = (site / "hashes" / "battles.html").read_text()
    assert "this record keeps only hashes of its inputs" in reader
    assert not list((site / "hashes" / "data").glob("texts-*.js"))
    assert list((site / "hashes" / "data").glob("verdicts-*.js"))
    items = []
    for path in (site / "pilot" / "data").glob("texts-*.js"):
        items += json.loads(path.read_text().partition(", ")[2].removesuffix(");\n"))
    reading = reading_of(workspace_of_runs / "runs" / "pilot")
    assert len(items) == 12 + 12 * 4
    assert len(reading.battles) > len(items)
    texts = [*reading.prompts.values(), *reading.responses.values()]
    assert sorted(items) == sorted(map(safe_html, texts))


def test_every_link_leads_somewhere(site: Path, record: Path, tmp_path: Path) -> None:
    """Each address in a page is a file of the site, also where a run has battles and no board."""
    (record / "board.json").unlink()
    alone = build_site([record], tmp_path / "out").index.parent
    pages = [*site.rglob("*.html"), *alone.rglob("*.html")]
    assert len(pages) > 30
    for page in pages:
        for name, value in Elements(page.read_text()).attributes:
            if name in ("href", "src") and not value.startswith(("#", "data:")):
                assert (page.parent / value.partition("#")[0]).is_file(), (page, value)


def test_boards_are_those_of_the_records(workspace_of_runs: Path) -> None:
    """A page has a board per dimension with the record's rows, and one per stratum of it; the
    placed model is marked.
    """
    runs = workspace_of_runs / "runs"
    board, every = Board.read(runs / "pilot"), boards_of(runs / "pilot")
    views = [view for view in every if not view.stratum]
    for view in (each for each in every if each.stratum):
        part = board[view.name].strata[0]["boards"][view.stratum]["ratings"]
        assert [row.rating for row in view.rows] == [row["rating"] for row in part]
    assert [view.name for view in views] == ["factuality", "calibration", "clinical_utility"]
    for view in views:
        assert view.rows == board.rows(view.name)
        assert {"interval", "rank-range", "tier", "elo-sem"} <= {c.key for c in view.columns}
        known = [row for row in view.rows if row.ci_low is not None or row.ci_high is not None]
        ends = [end for row in known for end in (row.ci_low, row.rating, row.ci_high)]
        ends = [end for end in ends if end is not None]
        assert view.scale == ((min(ends), max(ends)) if ends else None)
    (placed,) = boards_of(runs / "placed")
    assert [row.model for row in placed.rows if row.marked] == ["dogwood"]
    (policy,) = boards_of(runs / "policy")
    assert len(policy.rows) == 16
    assert {"confidence", "coverage", "badge", "won-lost-tied"} <= {c.key for c in policy.columns}


@pytest.mark.parametrize(
    ("outcome", "people", "disputed"),
    [
        ("model_a", {"beech": 1}, True), ("model_b", {"ash": 3, "beech": 2}, True),
        ("model_a", {"ash": 1}, False), ("model_a", {"ash": 1, "beech": 1}, False),
        ("model_a", {"tie": 2, "beech": 1}, False), ("tie", {"beech": 1}, False),
        ("inconsistent", {"beech": 1}, False), ("model_a", {}, False),
    ],
)  # fmt: skip
def test_people_disagree_where_most_named_the_other(
    outcome: str, people: dict[str, int], disputed: bool
) -> None:
    """A battle is disputed if judge and most people each named a model, and not the same."""
    battle = ReadBattle(id="x", model_a="ash", model_b="beech", outcome=outcome, prompt="q",
                        dimension="", judge="", verdicts=[], people=people)  # fmt: skip
    assert battle.disputed == disputed


def test_votes_from_a_file_stand_beside_verdicts(record: Path) -> None:
    """Votes are counted for their pair and prompt; a pair without a battle can be read."""
    votes = log_of([("beech", "ash", "model_a"), ("ash", "beech", "tie")])
    battles = {battle.prompt: battle for battle in reading_of(record, votes).battles}
    assert battles["q0"].people == {"beech": 1}
    assert battles["q0"].disputed
    assert (battles["q1"].people, battles["q2"].people) == ({"tie": 1}, {})
    rows = (record / "battles.jsonl").read_text().splitlines()
    (record / "battles.jsonl").write_text("\n".join(rows[1:]) + "\n")
    incomplete = [b for b in reading_of(record).battles if b.outcome == "incomplete"]
    assert [(b.id, len(b.verdicts)) for b in incomplete] == [("tone|q0|ash|beech", 2)]


@pytest.mark.parametrize("name", ["board.json", "answer.json", "battles.jsonl"])
@pytest.mark.parametrize("content", ["", "{}", '{"tone": 1}', "\xff"])
def test_a_damaged_artifact_is_a_sentence(
    record: Path, tmp_path: Path, name: str, content: str
) -> None:
    """Whatever stands in an artifact, the site is made, and says what it cannot show."""
    (record / name).write_text(content, encoding="latin-1")
    built = build_site([record], tmp_path / "out")
    assert bool(built.without_board) == (name == "board.json")
    assert (tmp_path / "out" / "index.html").is_file()
