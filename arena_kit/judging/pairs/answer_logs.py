"""Other tools' logs of answers, together as prompts and responses for a tournament: Inspect
(inspect_ai 0.3), the LM Evaluation Harness (lm-eval 0.4), Arena-Hard-Auto (2.0), MT-bench
(FastChat 0.2), and conversations as chat completions and ShareGPT have them, a row each.
"""

import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from arena_kit.battles import content as contents
from arena_kit.battles.battle import made_id
from arena_kit.files import DataError, read_json, read_lines, write_csv, write_jsonl
from arena_kit.judging.pairs.prompts import Prompt, Response, Row, file_row, responses_file

if sys.version_info >= (3, 14):
    import zipfile

    from compression.zstd import ZstdError
else:  # what Inspect compresses with zstd
    from backports.zstd import ZstdError, zipfile

#: A table of scores as `read_battles` takes it: the scorer is the dimension.
_SCORE_COLUMNS = ("question_id", "model", "score", "dimension")
#: Inspect's own numbers for the letters of its scorers: correct, incorrect, partial, no answer.
_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_ATTACHMENT = "attachment://"
_CONVERT = "inspect log convert --to json --output-dir converted"
_HEADERS = ("header.json", "_journal/start.json", "start.json")
#: The longest sample, in bytes; a small archive may unpack to more than the memory holds.
LONGEST = 268_435_456
_LM_EVAL_NAME = re.compile(r"samples_(?P<task>.+?)_\d{4}-\d{2}-\d{2}T.*")


class LoggedAnswer(NamedTuple):
    """One model's answer to one sample of a task.

    `same` is equal for two logs exactly where they asked the same; a chat template may have put
    it in other words. `scores` are the log's own, as numbers. `place` is where it stands.
    """

    prompt_id: str
    prompt: str
    text: str
    same: str
    model: str = ""
    target: str | None = None
    scores: Mapping[str, float] = {}
    place: str = ""
    task: str = ""


#: A place, the task and the model that it belongs to, and what stands there.
_Row = tuple[str, tuple[str, str], Mapping[str, Any]]


class _LogFormat(NamedTuple):
    """How a tool's log is recognised, its rows, and the answer of one, or why it has none."""

    title: str
    row: str
    recognises: Callable[[Path], bool]
    rows: Callable[[Path], Iterator[_Row]]
    answer: Callable[[Mapping[str, Any], contents.Pictures], LoggedAnswer | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """Prompts, every entrant's responses to them, the logs' own scores, and how much of what was
    left out.
    """

    prompts: tuple[Prompt, ...]
    responses: tuple[Response, ...]
    scores: tuple[dict[str, Any], ...]
    left_out: dict[str, int]

    @property
    def entrants(self) -> tuple[str, ...]:
        """Whose responses there are, in name order."""
        return tuple(sorted({response.entrant_id for response in self.responses}))

    def write(self, folder: Path) -> None:
        """Write prompts.jsonl, responses/responses_<entrant>.jsonl and, where the logs have
        pictures or scores, images/ and scores.csv.
        """
        texts = (*(p.text for p in self.prompts), *(r.response_text for r in self.responses))
        contents.write_pictures(folder, texts)
        write_jsonl(folder / "prompts.jsonl", (file_row(prompt) for prompt in self.prompts))
        for entrant in self.entrants:
            mine = (file_row(r) for r in self.responses if r.entrant_id == entrant)
            write_jsonl(responses_file(folder / "responses", entrant), mine)
        if self.scores:
            write_csv(folder / "scores.csv", self.scores, _SCORE_COLUMNS)


def collect(logs: Sequence[tuple[str, Path]]) -> Collection:
    """The answers of logs, each with the entrant that it is to count for, or '' for the model
    that it names.

    Samples are joined by task and id; two that asked something else under one id are refused, and
    so is a second answer of one entrant.
    """
    left_out: Counter[str] = Counter()
    first: dict[str, LoggedAnswer] = {}
    answered: dict[tuple[str, str], LoggedAnswer] = {}
    for answer in (each for log in logs for each in _answers(*log, left_out)):
        known = first.setdefault(answer.prompt_id, answer)
        if known.same != answer.same:
            raise DataError(
                f"{answer.place}: sample {answer.prompt_id} asks something else than at "
                f"{known.place}"
            )
        other = answered.setdefault((answer.model, answer.prompt_id), answer)
        if other is not answer:
            raise DataError(
                f"{answer.place}: a second answer of {answer.model} to {answer.prompt_id}, after "
                f"{other.place}; name entrants with NAME=LOG"
            )
        if known.prompt != answer.prompt:
            left_out["prompts in the words of a later log's chat template"] += 1
    if not answered:
        why = "".join(f"; left out: {n} {what}" for what, n in left_out.items())
        raise DataError(f"no answers in {', '.join(str(path) for _, path in logs)}{why}")
    scores = (
        dict(zip(_SCORE_COLUMNS, (each.prompt_id, each.model, score, scorer), strict=True))
        for each in answered.values()
        for scorer, score in each.scores.items()
    )
    prompts = tuple(map(_prompt, first.values()))
    responses = tuple(map(_response, answered.values()))
    left = dict(left_out)
    return Collection(prompts=prompts, responses=responses, scores=tuple(scores), left_out=left)


def _answers(entrant: str, path: Path, left_out: Counter[str]) -> Iterator[LoggedAnswer]:
    """The answers of a log, under the entrant's name where one is given; what is no answer is
    counted.
    """
    log = _format_of(path)
    for place, (task, model), row in log.rows(path):
        try:
            answer = log.answer(row, contents.PictureFiles(path))
        except DataError as error:
            answer = f"{log.row}, {place}: {error}"
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise DataError(f"{place}: not {log.row} ({error!r})") from None
        if isinstance(answer, str):
            left_out[answer] += 1
        else:
            name = entrant or made_id(answer.model or model)
            prompt_id = made_id(f"{task}:{answer.prompt_id}")
            yield answer._replace(place=place, task=task, model=name, prompt_id=prompt_id)


def _format_of(path: Path) -> _LogFormat:
    if not path.is_file():
        raise DataError(f"{path}: no such file; check the path")
    for log in _FORMATS:
        if log.recognises(path):
            return log
    keys = ", ".join(list(_first_row(path))[:12]) if path.suffix == ".jsonl" else ""
    titles = ", ".join(log.title for log in _FORMATS)
    found = f"; found: {keys}" if keys else ""
    raise DataError(f"{path}: not a log of answers; allowed: {titles}{found}")


def _prompt(answer: LoggedAnswer) -> Prompt:
    named = {"prompt_id": answer.prompt_id, "source": made_id(answer.task)}
    return _made(answer, Prompt, **named, text=answer.prompt, gold_answer=answer.target)


def _response(answer: LoggedAnswer) -> Response:
    scores = {"scores": dict(answer.scores)} if answer.scores else {}
    named = {"entrant_id": answer.model, "prompt_id": answer.prompt_id}
    return _made(answer, Response, **named, response_text=answer.text, diagnostics=scores)


def _made(answer: LoggedAnswer, kind: type[Row], **fields: Any) -> Row:
    try:
        return kind(**fields)
    except DataError as error:
        raise DataError(f"{answer.place}: {error}") from None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _first_row(path: Path) -> dict[str, Any]:
    """The first row of a JSONL file; empty where there is none that can be read."""
    try:
        return next((row for _, row in read_lines(path)), {})
    except DataError:
        return {}


def _is_inspect(path: Path) -> bool:
    if path.suffix != ".json":
        return path.suffix == ".eval"
    with path.open(encoding="utf-8", errors="replace") as text:
        return '"eval"' in text.read(4096)


def _inspect_rows(path: Path) -> Iterator[_Row]:
    """The samples of a JSON log, or of a zip with a file each."""
    if path.suffix != ".eval":
        yield from _inspect_samples(path, read_json(path))
        return
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile:
        raise DataError(f"{path}: not a whole .eval file (a zip archive)") from None
    with archive:
        names = archive.namelist()
        header = next((name for name in _HEADERS if name in names), None)
        members = sorted(name for name in names if name.startswith("samples/"))
        try:
            head = _member(path, archive, header) if header and members else None
        except NotImplementedError:  # compressed in a way that zipfile does not know
            head = None
        if head is None:
            yield from _inspect_samples(path, _read_by_inspect(path))
            return
        owner = _inspect_owner(path, head)
        for name in members:
            yield f"{path}: {name}", owner, _member(path, archive, name)


def _inspect_samples(path: Path, log: Any) -> Iterator[_Row]:
    owner = _inspect_owner(path, log)
    for n, sample in enumerate(log.get("samples") or []):
        yield f"{path}: sample {n}", owner, sample


def _inspect_owner(path: Path, head: Any) -> tuple[str, str]:
    """The task and the model that a log's header names."""
    try:
        return str(head["eval"]["task"]), str(head["eval"]["model"])
    except (KeyError, TypeError):
        raise DataError(f"{path}: not an Inspect log (no eval with a task and a model)") from None


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> Any:
    if (size := archive.getinfo(name).file_size) > LONGEST:
        raise DataError(f"{path}: {name} has {size:,} bytes; allowed: at most {LONGEST:,}")
    try:
        return json.loads(archive.read(name))
    except (ValueError, RecursionError, zipfile.BadZipFile, EOFError, ZstdError) as error:
        raise DataError(f"{path}: {name} is damaged ({error})") from None


def _read_by_inspect(path: Path) -> Any:
    """A log in another layout, as Inspect's own reader gives it."""
    try:
        from inspect_ai.log import read_eval_log  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise DataError(
            f"{path}: no samples in the layout of inspect_ai 0.3; install inspect_ai, whose own "
            f"reader is then used, or convert the log with: {_CONVERT} {path}"
        ) from None
    return read_eval_log(str(path)).model_dump(mode="json")


def _inspect_answer(sample: Mapping[str, Any], store: contents.Pictures) -> LoggedAnswer | str:
    if sample.get("epoch", 1) != 1:
        return "answers of later epochs"
    if sample.get("error"):
        return "samples that ended in an error"
    attached = sample.get("attachments") or {}
    given, choices = _attached(sample["input"], attached), sample.get("choices") or []
    said = _attached(sample.get("messages") or [], attached)
    asked = [{"role": "user", "content": given}] if isinstance(given, str) else given
    answered = _inspect_response(_attached(sample["output"], attached), said[len(asked) :])
    if answered is None:
        return "samples without an answer in text"
    if choices:
        listed = "\n".join(f"{chr(65 + n)}) {choice}" for n, choice in enumerate(choices))
        text, last = asked[-1]["content"], {"type": "text", "text": listed}
        content = f"{text}\n\n{listed}" if isinstance(text, str) else [*text, last]
        asked = [*asked[:-1], asked[-1] | {"content": content}]
    prompt = contents.made_content(asked, store, response=False)
    target = sample.get("target")
    return LoggedAnswer(
        prompt_id=str(sample["id"]),
        prompt=prompt,
        text=contents.made_content(answered, store, response=True),
        same=_digest(prompt),
        target=" or ".join(target) if isinstance(target, list) else target or None,
        scores=_inspect_scores(sample.get("scores") or {}),
    )


def _attached(value: Any, attachments: Mapping[str, str]) -> Any:
    """The value with long texts in place, which a log may keep apart under a hash."""
    if isinstance(value, str) and value.startswith(_ATTACHMENT):
        return attachments[value.removeprefix(_ATTACHMENT)]
    if isinstance(value, list):
        return [_attached(item, attachments) for item in value]
    if isinstance(value, dict):
        return {name: _attached(item, attachments) for name, item in value.items()}
    return value


def _inspect_response(output: Mapping[str, Any], said: list[Any]) -> list[Any] | None:
    """The messages of an answer: all from the first of the assistant on where there are several,
    as where it used tools, else the completion; None where there is none.
    """
    roles = [message.get("role") for message in said]
    if roles.count("assistant") > 1 or "tool" in roles:
        return said[roles.index("assistant") :]
    message = [choice["message"] for choice in output.get("choices") or []][:1]
    if isinstance(text := output.get("completion"), str) and (text or not message):
        message = [{"content": text}]
    return [{**each, "role": "assistant"} for each in message] or None


def _inspect_scores(scores: Mapping[str, Any]) -> dict[str, float]:
    """The scores that are numbers, by scorer."""
    values = {scorer: score["value"] for scorer, score in scores.items()}
    numbers = {name: _LETTERS.get(v) if isinstance(v, str) else v for name, v in values.items()}
    return {name: float(v) for name, v in numbers.items() if isinstance(v, bool | int | float)}


def _lm_eval_rows(path: Path) -> Iterator[_Row]:
    """The samples of a task, `samples_<task>_<date>.jsonl`; the folder's name is the model's."""
    named = _LM_EVAL_NAME.fullmatch(path.name)
    owner = named["task"] if named else path.stem, path.resolve().parent.name
    seen = set()
    for line, row in read_lines(path):
        sample = str(row.get("doc_id"))
        if sample not in seen or "resps" not in row:  # a row per filter: the answer is the same
            yield f"{path}:{line}", owner, row
        seen.add(sample)


def _lm_eval_answer(row: Mapping[str, Any], store: contents.Pictures) -> LoggedAnswer | str:
    text = row["resps"][0]
    text = text[0] if isinstance(text, list) else text
    if not isinstance(text, str):
        return "samples scored by likelihood, without an answer in text"
    prompt = _lm_eval_prompt(row["arguments"], store)
    if not prompt:
        return "samples whose prompt is not text"
    scores = {name: row.get(name) for name in row.get("metrics") or []}
    return LoggedAnswer(
        prompt_id=str(row["doc_id"]),
        prompt=prompt,
        text=text,
        same=row.get("doc_hash") or _digest(json.dumps(row.get("doc"), sort_keys=True)),
        target=None if row.get("target") in (None, "") else str(row["target"]),
        scores={n: float(v) for n, v in scores.items() if isinstance(v, bool | int | float)},
    )


def _lm_eval_prompt(arguments: Any, store: contents.Pictures) -> str | None:
    """The prompt of the first request; versions before 0.4.3 have a list. A chat is a JSON text
    of its messages.
    """
    first = arguments["gen_args_0"]["arg_0"] if isinstance(arguments, dict) else arguments[0][0]
    text = first[0] if isinstance(first, list) else first
    if not isinstance(text, str):
        return None
    try:
        messages = json.loads(text)
    except (ValueError, RecursionError):
        return text
    chat = isinstance(messages, list) and all(isinstance(m, dict) for m in messages)
    return contents.made_content(messages, store, response=False) if chat and messages else text


def _chat_rows(path: Path) -> Iterator[_Row]:
    """A row for each answer of a model."""
    task = "arena-hard" if "uid" in _first_row(path) else "chat"
    for line, row in read_lines(path):
        yield f"{path}:{line}", (task, path.stem), row


def _chat_answer(row: Mapping[str, Any], store: contents.Pictures) -> LoggedAnswer:
    """A whole conversation: what stands before the first answer is the prompt."""
    messages = contents.read_messages(row.get("messages", row.get("conversations")), store)
    asked, said = contents.divided(messages)
    contents.check_order(asked, response=False)
    contents.check_order(said, response=True)
    prompt = contents.simplified(asked, store)
    names = ("uid", "question_id", "prompt_id", "custom_id", "id")
    given = [str(row[name]) for name in names if row.get(name) is not None]
    own = given[0] if given else _digest(prompt)[:16]
    model = str(row.get("model") or "")
    return LoggedAnswer(own, prompt, contents.simplified(said, store), _digest(prompt), model)


def _mt_bench_rows(path: Path) -> Iterator[_Row]:
    """One model's answers, `model_answer/<model>.jsonl`; question.jsonl stands one folder up."""
    file = path.resolve().parent.parent / "question.jsonl"
    asked = {row["question_id"]: row for _, row in read_lines(file)}
    for line, row in read_lines(path):
        if row["question_id"] not in asked:
            raise DataError(f"{path}:{line}: question {row['question_id']} is not in {file}")
        yield f"{path}:{line}", ("mt-bench", path.stem), row | {"asked": asked[row["question_id"]]}


def _mt_bench_answer(row: Mapping[str, Any], store: contents.Pictures) -> LoggedAnswer:
    turns = zip(row["asked"]["turns"], row["choices"][0]["turns"], strict=False)
    said = [zip(("user", "assistant"), turn, strict=True) for turn in turns]
    rows = [{"role": role, "content": text} for turn in said for role, text in turn]
    whole = {"messages": rows, "question_id": row["question_id"], "model": row.get("model_id")}
    gold = "\n\n".join(row["asked"].get("reference") or ()) or None
    return _chat_answer(whole, store)._replace(target=gold)


def _jsonl_with(*keys: str) -> Callable[[Path], bool]:
    return lambda path: path.suffix == ".jsonl" and _first_row(path).keys() >= {*keys}


_FORMATS = (
    _LogFormat("Inspect log", "a sample of Inspect", _is_inspect, _inspect_rows, _inspect_answer),
    _LogFormat("lm-eval samples", "a sample of lm-eval",
               _jsonl_with("doc_id", "arguments", "resps"), _lm_eval_rows, _lm_eval_answer),
    _LogFormat("Arena-Hard answers", "an answer of Arena-Hard",
               _jsonl_with("uid", "model", "messages"), _chat_rows, _chat_answer),
    _LogFormat("MT-bench answers", "an answer of MT-bench",
               _jsonl_with("question_id", "choices"), _mt_bench_rows, _mt_bench_answer),
    _LogFormat("chat-completions messages", "a conversation",
               _jsonl_with("messages"), _chat_rows, _chat_answer),
    _LogFormat("ShareGPT conversations", "a conversation",
               _jsonl_with("conversations"), _chat_rows, _chat_answer),
)  # fmt: skip
