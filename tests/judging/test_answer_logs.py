"""Other tools' logs of answers become prompts and responses; the files are written by hand."""

import json
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from arena_kit import DataError, read_battles
from arena_kit.judging.pairs import answer_logs
from arena_kit.judging.pairs.answer_logs import Collection, collect
from arena_kit.judging.pairs.prompts import read_prompts, read_responses
from tests.samples import call

NAME = "samples_gsm8k_2026-01-02T03-04-05.678.jsonl"


def read(*paths: Path) -> Collection:
    return collect([("", path) for path in paths])


def texts(answers: Collection) -> dict[tuple[str, str], str]:
    return {(r.entrant_id, r.prompt_id): r.response_text for r in answers.responses}


def conversation(text: str) -> list[dict[str, object]]:
    return text.as_json()


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def sample(n: int, answer: str, **changes: Any) -> dict[str, Any]:
    scores = {"match": {"value": "C" if answer == str(2 * n) else "I"}}
    asked = {"id": n, "epoch": 1, "input": f"What is {n} + {n}?", "target": str(2 * n)}
    return asked | {"output": {"completion": answer}, "scores": scores} | changes


def head(model: str) -> dict[str, Any]:
    return {"version": 2, "status": "success", "eval": {"task": "sums", "model": model}}


def zipped(path: Path, model: str, samples: list[dict[str, Any]], header: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in samples:
            name = f"samples/{each['id']}_epoch_{each['epoch']}.json"
            archive.writestr(name, json.dumps(each))
        archive.writestr(header, json.dumps(head(model)))
    return path


def plain(path: Path, model: str, samples: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps(head(model) | {"samples": samples}))
    return path


@pytest.mark.parametrize("header", ["header.json", "start.json", "_journal/start.json"])
def test_inspect_logs_of_two_models_share_their_samples(tmp_path: Path, header: str) -> None:
    """One bank of prompts, the target as gold answer, and a response of each model to each."""
    a = zipped(tmp_path / "a.eval", "openai/gpt-x", [sample(1, "2"), sample(2, "4")], header)
    b = plain(tmp_path / "b.json", "local/y", [sample(1, "two"), sample(2, "4")])
    answers = read(a, b)
    assert [(p.prompt_id, p.text, p.gold_answer, p.source) for p in answers.prompts] == [
        ("sums:1", "What is 1 + 1?", "2", "sums"),
        ("sums:2", "What is 2 + 2?", "4", "sums"),
    ]
    assert texts(answers) == {
        ("openai/gpt-x", "sums:1"): "2", ("openai/gpt-x", "sums:2"): "4",
        ("local/y", "sums:1"): "two", ("local/y", "sums:2"): "4",
    }  # fmt: skip
    assert answers.left_out == {}
    marks = {(s["model"], s["question_id"]): s["score"] for s in answers.scores}
    assert (marks["local/y", "sums:1"], marks["local/y", "sums:2"]) == (0, 1)


def test_what_is_no_answer_is_counted(tmp_path: Path) -> None:
    """Later epochs, failed samples and lost pictures are counted; attachments are put back."""
    picture = [{"role": "user", "content": [{"type": "image", "image": "x"}]}]
    samples = [
        sample(1, "2"), sample(1, "3", epoch=2), sample(2, "", error={"message": "timeout"}),
        sample(3, "x", input=picture), sample(4, "x", output={"choices": []}),
    ]  # fmt: skip
    answers = read(plain(tmp_path / "a.json", "m", samples))
    assert texts(answers) == {("m", "sums:1"): "2"}
    why = ["answers of later epochs", "samples that ended in an error"]
    lost = f"{tmp_path / 'a.json'}: sample 3: picture 'x' is missing in {tmp_path}"
    why += [f"a sample of Inspect, {lost}", "samples without an answer in text"]
    assert answers.left_out == dict.fromkeys(why, 1)
    reply = {"choices": [{"message": {"role": "assistant", "content": "attachment://b2"}}]}
    long = sample(1, "", input="attachment://a1", output=reply)
    log = plain(tmp_path / "a.json", "m", [long | {"attachments": {"a1": "Why?", "b2": "So."}}])
    answers = read(log)
    assert (answers.prompts[0].text, texts(answers)["m", "sums:1"]) == ("Why?", "So.")
    plain(tmp_path / "a.json", "m", [long])
    with pytest.raises(DataError, match=r"a\.json: sample 0: not a sample of Inspect .*'a1'"):
        read(log)


def test_inspect_messages_choices_and_reasoning(tmp_path: Path) -> None:
    """Conversations keep roles and tool calls, questions their choices, answers reasoning."""
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi?"}]
    reply = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "Hello."}]
    call = {"id": "c", "function": "add", "arguments": {"n": 3}}
    used = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "6"},
        {"role": "assistant", "content": "6"},
    ]
    samples = [
        sample(1, "", input=chat, output={"choices": [{"message": {"content": reply}}]}),
        sample(2, "B", choices=["three", "four"], target=["B", "four"]),
        sample(3, "6", messages=[{"role": "user", "content": "What is 3 + 3?"}, *used]),
    ]
    answers = read(plain(tmp_path / "a.json", "m", samples))
    assert conversation(answers.prompts[0].text) == chat
    assert answers.prompts[1].text == "What is 2 + 2?\n\nA) three\nB) four"
    assert answers.prompts[1].gold_answer == "B or four"
    thought = [{"type": "reasoning", "text": "hm"}, reply[1]]
    said = texts(answers)
    assert conversation(said["m", "sums:1"]) == [{"role": "assistant", "content": thought}]
    called = {"type": "tool_call", "name": "add", "arguments": '{"n": 3}', "result": "6"}
    assert conversation(said["m", "sums:3"]) == [
        {"role": "assistant", "content": [{"type": "text", "text": ""}, called]}, used[2],
    ]  # fmt: skip


def members(path: Path, **texts: str) -> None:
    """A zip of these members; `_` in a name stands for a slash."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in texts.items():
            archive.writestr(name.replace("_", "/"), text)


def test_damaged_logs_name_their_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A layout that we do not know is left to inspect_ai."""
    header = json.dumps(head("m"))
    whole = zipped(tmp_path / "a.eval", "m", [sample(1, "2" * 2000)], "header.json")
    (tmp_path / "cut.eval").write_bytes(whole.read_bytes()[:60])
    members(tmp_path / "bad.eval", **{"header.json": header, "samples_1.json": "{"})
    members(tmp_path / "chunks.eval", **{"header.json": header, "chunks_0.bin": "x"})
    plain(tmp_path / "b.json", "m", [{"id": 1, "input": "x"}])
    (tmp_path / "c.json").write_text('{"eval": 3}')
    wrong = {
        "cut.eval": r"not a whole \.eval file", "bad.eval": r"samples/1\.json is damaged",
        "b.json": r"sample 0: not a sample of Inspect .*'output'", "c.json": "not an Inspect log",
        "a.eval": r"samples/1_epoch_1\.json has 2,\d{3} bytes; allowed",
    }  # fmt: skip
    if not find_spec("inspect_ai"):
        wrong["chunks.eval"] = "install inspect_ai, whose own reader is then used"
    monkeypatch.setattr(answer_logs, "LONGEST", 1000)
    for name, words in wrong.items():
        with pytest.raises(DataError, match=rf"{name}: .*{words}"):
            read(tmp_path / name)


def row(doc_id: int, answer: Any, **changes: Any) -> dict[str, Any]:
    return {
        "doc_id": doc_id, "doc": {"question": f"q{doc_id}"}, "target": "42",
        "arguments": {"gen_args_0": {"arg_0": f"Q: q{doc_id}\nA:", "arg_1": {"until": ["\n"]}}},
        "resps": [[answer]], "filtered_resps": [answer], "filter": "strict-match",
        "metrics": ["exact_match"], "exact_match": 1.0, "doc_hash": f"d{doc_id}",
    } | changes  # fmt: skip


def test_lm_eval_samples_take_the_model_from_their_folder(tmp_path: Path) -> None:
    """The file's name has the task, its folder or NAME= the model; filters share one answer."""
    twice = [row(0, "41"), row(0, "41", filter="flexible-extract"), row(1, "42"), row(2, -3.5)]
    a = lines(tmp_path / "meta__llama" / NAME, twice)
    b = lines(tmp_path / "other" / NAME, [row(0, "6"), row(1, "7")])
    answers = collect([("", a), ("mine", b)])
    assert [p.prompt_id for p in answers.prompts] == ["gsm8k:0", "gsm8k:1"]
    assert answers.prompts[0].text == "Q: q0\nA:"
    assert texts(answers) == {
        ("meta__llama", "gsm8k:0"): "41", ("meta__llama", "gsm8k:1"): "42",
        ("mine", "gsm8k:0"): "6", ("mine", "gsm8k:1"): "7",
    }  # fmt: skip
    assert answers.left_out == {"samples scored by likelihood, without an answer in text": 1}


def test_lm_eval_chats_and_older_arguments(tmp_path: Path) -> None:
    """Two chat templates of one document are one prompt; a damaged line is named."""
    chat = json.dumps([{"role": "user", "content": "q0"}])
    a = lines(tmp_path / "a" / NAME, [row(0, "x", arguments={"gen_args_0": {"arg_0": [chat]}})])
    b = lines(tmp_path / "b" / NAME, [row(0, "y", arguments=[["[INST] q0 [/INST]", {}]])])
    answers = read(a, b)
    assert [p.text for p in answers.prompts] == ["q0"]
    assert answers.left_out == {"prompts in the words of a later log's chat template": 1}
    file = lines(tmp_path / "m" / NAME, [row(0, "1"), {"doc_id": 1}])
    words = r"\.jsonl:2: not a sample of lm-eval \(KeyError\('resps'\)"
    with pytest.raises(DataError, match=words):
        read(file)
    file.write_text(json.dumps(row(0, "1")) + "\n{\n")
    with pytest.raises(DataError, match=r"\.jsonl:2: not valid JSON"):
        read(file)


def test_arena_hard_answers(tmp_path: Path) -> None:
    """Arena-Hard's last message is the answer; MT-bench's second question stands between two."""

    def said(model: str, text: str) -> dict[str, Any]:
        asked = {"role": "user", "content": "Write a haiku."}
        messages = [asked, {"role": "assistant", "content": {"answer": text}}]
        return {"uid": "u1", "ans_id": "x", "model": model, "messages": messages, "metadata": {}}

    a = lines(tmp_path / "a.jsonl", [said("a", "Leaves fall.")])
    b = lines(tmp_path / "b.jsonl", [said("b", "Snow.")])
    answers = read(a, b)
    assert [(p.prompt_id, p.text) for p in answers.prompts] == [("arena-hard:u1", "Write a haiku.")]
    assert ([*texts(answers).values()], answers.entrants) == (["Leaves fall.", "Snow."], ("a", "b"))
    lines(a, [said("a", "x"), {"uid": "u2", "model": "a", "messages": []}])
    assert read(a).left_out == {
        f"an answer of Arena-Hard, {a}:2: a conversation is a list of messages, not '[]'": 1
    }
    turns, gold = ["Why?", "But why?"], ["Since", "So"]
    lines(tmp_path / "question.jsonl", [{"question_id": 81, "turns": turns, "reference": gold}])
    row = {"question_id": 81, "model_id": "v", "choices": [{"index": 0, "turns": ["A", "B"]}]}
    answers = read(lines(tmp_path / "model_answer" / "vicuna.jsonl", [row]))
    (prompt,) = answers.prompts
    found = (prompt.prompt_id, prompt.text, prompt.gold_answer, answers.entrants)
    assert found == ("mt-bench:81", "Why?", "Since\n\nSo", ("v",))
    said = [m["content"] for m in conversation(texts(answers)["v", "mt-bench:81"])]
    assert said == ["A", "But why?", "B"]


def test_chats_bring_their_pictures_along(tmp_path: Path) -> None:
    """Rows of messages with pictures, and ShareGPT's lists, are written and read again."""
    Image.new("RGB", (8, 8)).save(tmp_path / "model-x.png")
    look = [{"type": "text", "text": "What?"}, {"type": "image", "image": "model-x.png"}]
    asked = {"role": "user", "content": look}
    chats = [
        {"id": n, "model": "x", "messages": [asked, {"role": "assistant", "content": said}]}
        for n, said in enumerate(["A box.", [{"type": "image", "image": "lost.png"}]])
    ]
    a = lines(tmp_path / "chats.jsonl", chats)
    talk = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yo"}]
    b = lines(tmp_path / "talks.jsonl", [{"id": "t", "conversations": talk}])
    answers = read(a, b)
    lost = f"a conversation, {a}:2: picture 'lost.png' is missing in {tmp_path}"
    assert answers.left_out == {lost: 1}
    assert texts(answers) == {("x", "chat:0"): "A box.", ("talks", "chat:t"): "Yo"}
    answers.write(tmp_path / "out")
    first, second = read_prompts(tmp_path / "out" / "prompts.jsonl")
    assert (first.text, second.text) == (answers.prompts[0].text, "Hi")
    (picture,) = (tmp_path / "out" / "images").iterdir()
    assert picture.name == conversation(first.text)[0]["content"][1]["image"]  # type: ignore[index]


def test_logs_that_cannot_be_joined_are_refused(tmp_path: Path) -> None:
    """Other samples under one id, and second answers, are refused; names that are no ids hashed."""
    a = plain(tmp_path / "a.json", "m", [sample(1, "2")])
    b = plain(tmp_path / "b.json", "n", [sample(1, "2", input="Something else?")])
    with pytest.raises(DataError, match=r"b\.json: sample 0: .*something else than at .*a\.js"):
        read(a, b)
    plain(b, "m", [sample(1, "3")])
    with pytest.raises(DataError, match=r"a second answer of m to sums:1.*NAME=LOG"):
        read(a, b)
    assert collect([("first", a), ("second", b)]).entrants == ("first", "second")
    samples = [sample(1, "2", id=name) for name in ("a b", "a/../b", "a_b")]
    answers = read(plain(tmp_path / "a.json", "my model!", samples))
    ids = [p.prompt_id for p in answers.prompts]
    assert (len(set(ids)), ids[2]) == (3, "sums:a_b")
    assert answers.entrants[0].startswith("my_model_-")


def test_the_command_writes_what_a_tournament_reads(tmp_path: Path) -> None:
    """Prompts, responses and scores, whose battles the higher one wins; no folder in use."""
    a = plain(tmp_path / "a.json", "org/a", [sample(1, "2"), sample(2, "5")])
    b = plain(tmp_path / "b.json", "org/b", [sample(1, "2", epoch=2), sample(2, "4")])
    out = tmp_path / "out"
    done = call("import", a, f"bee={b}", "--out", out)
    assert done.stdout == f"2 prompts, 3 responses of bee, org/a: {out}\n", done.stderr
    assert "left out: 1 answers of later epochs" in done.stderr
    bank = read_prompts(out / "prompts.jsonl")
    ids = [prompt.prompt_id for prompt in bank]
    cache = read_responses(out / "responses", ["bee", "org/a"], ids)
    assert cache["bee", "sums:2"].response_text == "4"
    (by_score,) = read_battles(out / "scores.csv").to_battles()
    assert (by_score.question_id, by_score.dimension) == ("sums:2", "match")
    assert {by_score.model_a: "model_a", by_score.model_b: "model_b"}["bee"] == by_score.winner
    again = call("import", a, "--out", out)
    assert again.exit_code == 2
    assert "holds files of its own" in again.stderr
    file = lines(tmp_path / "x.jsonl", [{"model_a": "x", "model_b": "y"}])
    foreign = call("import", file, "--out", tmp_path / "other")
    found = "allowed: Inspect log, lm-eval samples, Arena-Hard answers, MT-bench answers, "
    found += "chat-completions messages, ShareGPT conversations; found: model_a, model_b"
    assert foreign.exit_code == 2
    assert foreign.stderr == f"error: {file}: not a log of answers; {found}\n"
