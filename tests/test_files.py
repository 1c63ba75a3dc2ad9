"""Files appear whole or not at all, and what cannot be read is named by file and line."""

import csv
import gzip
import json
import math
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_kit import files
from arena_kit.files import DataError, read_json, read_lines, read_yaml, whole_file, write_json
from arena_kit.judging.pairs import prompts
from arena_kit.judging.pairs.prompts import Prompt, Response, read_prompts, read_responses
from tests.samples import ROOT

PROMPT = {"prompt_id": "p1", "text": "Why?", "source": "plain"}
RESPONSE = {"entrant_id": "ash", "prompt_id": "p1", "response_text": "Because."}


def lines(path: Path, *rows: object) -> Path:
    """A JSONL file; a row that is already text is written as it stands."""
    texts = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    return path


def only(folder: Path) -> str:
    """The name of the only file in a folder, hidden ones counted."""
    (path,) = folder.iterdir()
    return path.name


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    """The old content stays until the block ends; then the new one is there, alone."""
    path = tmp_path / "new" / "result.txt"
    files.write_text(path, "old")
    with whole_file(path) as first:
        first.write_text("first")
        assert path.read_text() == "old"
        with whole_file(path) as second:
            second.write_text("second")
        assert path.read_text() == "second"
    assert (path.read_text(), only(path.parent)) == ("first", "result.txt")


def test_permissions_follow_the_umask_and_stay(tmp_path: Path) -> None:
    """A new file is as the umask says or, if private, its owner's; a replaced one stays as is."""
    path, before = tmp_path / "result.txt", os.umask(0o027)
    try:
        for name, private, mode in (("a", False, 0o640), ("b", True, 0o600)):
            with whole_file(tmp_path / name, private=private) as part:
                part.write_text("x")
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode
    finally:
        os.umask(before)
    files.write_text(path, "old")
    path.chmod(0o600)
    files.write_text(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def half_written(path: Path) -> None:
    with whole_file(path) as part:
        part.write_text("half of the n")
        raise RuntimeError("the power went out")


@pytest.mark.parametrize("old", ["old", None])
def test_a_failed_write_leaves_what_was_there(old: str | None, tmp_path: Path) -> None:
    """After an error, or NaN for JSON, the old file, or none, is there, and nothing beside it."""
    path = tmp_path / "result.txt"
    if old is not None:
        path.write_text(old)
    with pytest.raises(RuntimeError):
        half_written(path)
    for value in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match="JSON compliant"):
            write_json(path, {"rating": [1.0, value]})
        with pytest.raises(ValueError, match="JSON compliant"):
            files.write_jsonl(path, [{"rating": 1.0}, {"rating": value}])
    assert [each.read_text() for each in tmp_path.iterdir()] == ([old] if old else [])


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from arena_kit import Battle, BattleLog, files, write_battles

battle = Battle(model_a="ash", model_b="beech", winner="tie", question_id="q" * 9000)
log, rows = BattleLog.from_battles([battle]), [{"n": "x" * 100} for _ in range(1000)]
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
for write in (
    lambda path: files.write_text(path, "x" * 100_000), lambda path: files.write_json(path, rows),
    lambda path: files.write_jsonl(path, rows), lambda path: files.write_csv(path, rows, ["n"]),
    lambda path: write_battles(path, log),
):
    try:
        write(Path(sys.argv[1]))
    except Exception as error:
        print("refused:", type(error).__name__)
"""


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    """A write that the system cuts short raises, and the old content is still whole."""
    path = lines(tmp_path / "result.jsonl", "old")
    command = [sys.executable, "-c", FULL_DISK, str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout.count("refused:") == 5, run.stderr
    assert (path.read_text(), only(tmp_path)) == ("old\n", "result.jsonl")


text = st.text('a"\\\0\r\n\x85\u2028\ufeffé樺\U0001f600', max_size=5)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab\n", max_size=3), inner),
    max_leaves=5,
)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.dictionaries(text, values), max_size=4))
def test_rows_survive_their_file(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[dict[str, object]]
) -> None:
    """Written as JSON lines, zipped or not, or as one JSON file, rows come back the same."""
    folder = tmp_path_factory.getbasetemp()
    for name in ("rows.jsonl", "rows.jsonl.gz"):
        files.write_jsonl(folder / name, wanted)
        assert list(read_lines(folder / name)) == list(enumerate(wanted, 1))
    write_json(folder / "rows.json", wanted)
    assert read_json(folder / "rows.json") == wanted


def test_a_csv_is_read_by_anyone(tmp_path: Path) -> None:
    """A table is quoted where needed; JSON has sorted keys, and the hash is SHA-256."""
    path = tmp_path / "table.csv"
    with pytest.raises(ValueError, match="loses"):
        files.write_csv(path, [{"wins": 3, "loses": 1}], ["wins"])
    assert list(tmp_path.iterdir()) == []
    texts = ['a,"b"\nc', "é", "=HYPERLINK(1)", "\tx"]
    files.write_csv(
        path, [{"model": name, "wins": -n} for n, name in enumerate(texts)], ["wins", "model"]
    )
    with path.open(newline="", encoding="utf-8") as table:
        header, *rows = csv.reader(table)
    assert header == ["wins", "model"]
    assert rows == [["0", texts[0]], ["-1", "é"], ["-2", "'=HYPERLINK(1)"], ["-3", "'\tx"]]
    path = tmp_path / "result.json"
    write_json(path, {"b": 1, "a": {"d": "é", "c": None}})
    expected = '{\n  "a": {\n    "c": null,\n    "d": "é"\n  },\n  "b": 1\n}\n'
    assert path.read_text(encoding="utf-8") == expected
    path.write_bytes(b"abc")
    assert (
        files.file_hash(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """Every reader names the file that is missing; malformed JSON is named by its line."""
    for read in (files.read_text, read_json, read_yaml, read_prompts, files.file_hash):
        with pytest.raises(DataError, match="nowhere: no such file"):
            read(tmp_path / "nowhere")
    path = tmp_path / "manifest.json"
    for content, message in {
        b"caf\xe9": r": not UTF-8 text \(byte 3\)",
        b'{\n  "a": 1,\n  oops\n}\n': ":3: not valid JSON",
        b"[" * 200_000: ": nested too deeply",
    }.items():
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"manifest\.json{message}"):
            read_json(path)


def test_yaml_is_a_mapping(tmp_path: Path) -> None:
    """Keys and values come out typed as YAML means them; anchors, aliases and merged keys work."""
    path = lines(tmp_path / "params.yaml", "scale: 1.0e-3", "names: [a, b]",
                 "base: &base {k: 16, fast: true}", "same: *base", "slow: {<<: *base, fast: false}",
                 )  # fmt: skip
    base = {"k": 16, "fast": True}
    expected = {"scale": 0.001, "names": ["a", "b"], "base": base, "same": base}
    assert read_yaml(path) == expected | {"slow": {"k": 16, "fast": False}}
    with pytest.raises(DataError, match=r"-p strata: .* is not a value"):
        files.read_value("strata", "[" * 5_000)


def _alias_bomb(levels: int) -> str:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(rows)


@pytest.mark.parametrize(
    ("content", "where", "message"),
    [
        ("k: 1\nn: 2\nk: 3\n", ":3", "key 'k' appears twice"),
        ("a:\n  k: 1\n\n  k: 2\n", ":4", "key 'k' appears twice"),
        ("a: [{k: 1, k: 1}]\n", ":1", "key 'k' appears twice"),
        ("k: 1\nn: [1\n", ":3", "not valid YAML"),
        ("k: 1\nn: *other\n", ":2", "not valid YAML .*undefined alias"),
        ("k: !!python/object/apply:os.getcwd []\n", ":1", "not valid YAML"),
        ("k: \x01\n", "", "not valid YAML"),
        ("[a, b]: 1\n", "", "not valid YAML"),
        ("day: 2024-13-45\n", "", "not valid YAML"),
        ("- k\n", "", "expected a mapping of keys to values, got list"),
        (_alias_bomb(30), ":6", "more than 100,000 values"),
        ("a: &a [1, *a]", ":1", "an alias inside what it stands for"),
        ("a: " + "[" * 5_000 + "]" * 5_000, ":1", "nested deeper than 50 levels"),
        ("a: " + "{b: " * 5_000 + "}" * 5_000, ":1", "nested deeper than 50 levels"),
        ("\n".join(" " * n + "a:" for n in range(2_000)), r":5\d", "nested deeper than 50 levels"),
    ],
    ids=range(15),
)
def test_wrong_yaml_is_named(content: str, where: str, message: str, tmp_path: Path) -> None:
    """Keys given twice, bad syntax, alias bombs and deep nesting are one sentence each."""
    path = tmp_path / "params.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=rf"params\.yaml{where}: .*{message}") as caught:
        read_yaml(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"{oops", "not valid JSON"),
        (b'{"a": NaN}', r"not valid JSON \(NaN is not a JSON number\)"),
        (b'{"a": -Infinity}', r"not valid JSON \(-Infinity is not a JSON number\)"),
        (b"[1]", "expected a JSON object, got list"),
        (b"null", "expected a JSON object, got NoneType"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": "\xff"}', "not UTF-8 text"),
    ],
    ids=["syntax", "nan", "infinity", "list", "null", "deep", "latin"],
)
def test_a_malformed_line_is_named(row: bytes, message: str, tmp_path: Path) -> None:
    """A line that is not a JSON object is named by its number; blank lines count."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\n\n  \n' + row)
    with pytest.raises(DataError, match=rf"rows\.jsonl:4: {message}"):
        list(read_lines(path))


def test_a_damaged_gzip_file_is_refused(tmp_path: Path) -> None:
    """A gzip file cut short, with flipped bits or unzipped is named, not half believed."""
    whole = gzip.compress("".join(f'{{"a": "{i * 7919}"}}\n' for i in range(500)).encode())
    flipped = whole[:200] + bytes(byte ^ 0xFF for byte in whole[200:202]) + whole[202:]
    path = tmp_path / "rows.jsonl.gz"
    for damaged in (whole[:-12], flipped, b'{"a": 1}\n'):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"rows\.jsonl\.gz:\d+: not "):
            list(read_lines(path))
    (tmp_path / "rows.jsonl").write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\r\n{"a": 2}\r\n')
    assert list(read_lines(tmp_path / "rows.jsonl")) == [(1, {"a": 1}), (3, {"a": 2})]


def test_a_prompt_bank_is_read_in_order(tmp_path: Path) -> None:
    """Prompts come in file order with their fields; keys nobody knows are left aside."""
    full = {
        "prompt_id": "p2", "text": "Is <b>this</b> safe?", "source": "curated",
        "subject": "cardiology", "expected_behavior": "hedge", "tags": ["heart", "dose"],
    }  # fmt: skip
    path = lines(tmp_path / "p.jsonl", PROMPT | {"gold_answer": "So."}, "", full | {"level": 3})
    changed = {"expected_behavior": prompts.ExpectedBehavior.HEDGE, "tags": ("heart", "dose")}
    assert read_prompts(path) == [
        Prompt(**PROMPT, gold_answer="So."),
        Prompt(**(full | changed)),  # type: ignore[arg-type]
    ]


def without(row: dict[str, str], *keys: str) -> dict[str, str]:
    return {key: value for key, value in row.items() if key not in keys}


SECOND = PROMPT | {"prompt_id": "p2"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (PROMPT, "prompt_id 'p1' is already on line 1"),
        ("{oops", "not valid JSON"),
        (without(PROMPT, "prompt_id", "source"), "missing 'prompt_id' and 'source'"),
        *((PROMPT | {"prompt_id": p}, f"prompt_id {re.escape(repr(p))} is not a valid id")
          for p in ("../x", "p 2", 2)),
        (SECOND | {"source": "<b>"}, "source '<b>' is not a valid id"),
        *((SECOND | {"text": text}, "text of prompt p2 must be") for text in ("  ", None)),
        (SECOND | {"expected_behavior": "maybe"}, "'maybe'; allowed: hedge, answer, abstain"),
        *((SECOND | {"tags": tags}, "tags") for tags in ("heart", 5)),
        (SECOND | {"gold_answer": 5}, "gold_answer"),
    ],
)  # fmt: skip
def test_a_wrong_prompt_is_named_with_its_line(row: object, message: str, tmp_path: Path) -> None:
    """A prompt that cannot be used is named by file, line and field; a bank needs prompts."""
    path = lines(tmp_path / "prompts.jsonl", PROMPT, "", row)
    with pytest.raises(DataError, match=rf"prompts\.jsonl:3: .*{message}"):
        read_prompts(path)
    with pytest.raises(DataError, match=r"prompts\.jsonl: the prompt bank is empty"):
        read_prompts(lines(tmp_path / "prompts.jsonl", "", ""))


def test_responses_are_found_by_entrant_and_prompt(tmp_path: Path) -> None:
    """Each entrant has a file, in which a slash is two underscores; a missing one is an error."""
    folder = tmp_path / "responses"
    folder.mkdir()
    other = {"entrant_id": "org/ash", "prompt_id": "p2", "response_text": ""}
    lines(folder / "responses_ash.jsonl", RESPONSE | {"p_correct": 1, "mood": "good"})
    lines(folder / "responses_org__ash.jsonl", other)
    assert read_responses(folder, ["ash", "org/ash"], ["p1", "p2"]) == {
        ("ash", "p1"): Response(**RESPONSE, p_correct=1),
        ("org/ash", "p2"): Response(**other),
    }
    lines(tmp_path / "secret.jsonl", RESPONSE)
    for entrant in ("beech", "../secret"):
        with pytest.raises(DataError, match=r"no such file|not a valid id"):
            read_responses(folder, [entrant], ["p1"])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (RESPONSE, "a second response to 'p1'"),
        (RESPONSE | {"entrant_id": "beech"}, "entrant_id 'beech' in the file of 'ash'"),
        (RESPONSE | {"prompt_id": "p9"}, "prompt_id 'p9' is not in the prompt bank"),
        (RESPONSE | {"prompt_id": "../x"}, r"prompt_id '\.\./x' is not a valid id"),
        (without(RESPONSE, "response_text"), "missing 'response_text'"),
        (RESPONSE | {"response_text": None}, "response_text of p1"),
        ("{oops", "not valid JSON"),
        *((RESPONSE | {"p_correct": p}, f"p_correct {p!r} is not a number from 0 to 1")
          for p in (1.5, -0.1, "0.5", True)),
        (json.dumps(RESPONSE)[:-1] + ', "p_correct": 1e999}', "p_correct inf is not a number"),
    ],
)  # fmt: skip
def test_a_wrong_response_is_named_with_its_line(row: object, message: str, tmp_path: Path) -> None:
    """A response under a wrong id, given twice or malformed is an error with its line."""
    lines(tmp_path / "responses_ash.jsonl", RESPONSE, "", row)
    with pytest.raises(DataError, match=rf"responses_ash\.jsonl:3: {message}"):
        read_responses(tmp_path, ["ash"], ["p1"])
