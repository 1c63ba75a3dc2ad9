"""Logs of Inspect (inspect_ai 0.3): `.eval`, a zip of a file per sample, and JSON."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from arena_kit.files import DataError, read_json
from arena_kit.judging.pairs.answer_logs.answer import (
    Answer,
    content_text,
    conversation_text,
    digest_of,
    safe_id,
)

#: Inspect's own numbers for the letters of its scorers: correct, incorrect, partial, no answer.
_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_ATTACHMENT = "attachment://"
_HEADERS = ("header.json", "_journal/start.json", "start.json")
#: The longest sample, in bytes; a small archive may unpack to more than the memory holds.
LONGEST = 268_435_456
Sample = tuple[str, Mapping[str, Any]]


class InspectLog:
    """An evaluation of one model on the samples of one task."""

    title = "Inspect log"
    follows = "inspect_ai 0.3, log/_recorders"

    def recognises(self, path: Path) -> bool:
        if path.suffix == ".eval":
            return True
        return path.suffix == ".json" and '"eval"' in _beginning(path)

    def answers(self, path: Path, entrant: str, left_out: Counter[str]) -> Iterator[Answer]:
        head, samples = _zipped(path) if path.suffix == ".eval" else _plain(path)
        for place, sample in samples:
            try:
                answer = _answer(place, head, sample, entrant)
            except (KeyError, TypeError, AttributeError, IndexError) as error:
                raise DataError(f"{place}: not a sample of Inspect ({error!r})") from None
            if isinstance(answer, str):
                left_out[answer] += 1
            else:
                yield answer


def _answer(
    place: str, head: Mapping[str, Any], sample: Mapping[str, Any], entrant: str
) -> Answer | str:
    """The answer of a sample, or why it has none."""
    if sample.get("epoch", 1) != 1:
        return "answers of later epochs"
    if sample.get("error"):
        return "samples that ended in an error"
    attached = sample.get("attachments") or {}
    given, choices = _attached(sample["input"], attached), sample.get("choices") or []
    prompt = given if isinstance(given, str) else conversation_text(given)
    if prompt is None:
        return "samples whose prompt is more than text"
    text = _completion(_attached(sample["output"], attached))
    if text is None:
        return "samples without an answer in text"
    if choices:
        listed = "\n".join(f"{chr(65 + n)}) {choice}" for n, choice in enumerate(choices))
        prompt = f"{prompt}\n\n{listed}"
    target = sample.get("target")
    return Answer(
        task=str(head["eval"]["task"]),
        sample=str(sample["id"]),
        model=entrant or safe_id(str(head["eval"]["model"])),
        prompt=prompt,
        text=text,
        same=digest_of(prompt),
        place=place,
        target=" or ".join(target) if isinstance(target, list) else target or None,
        scores=_scores(sample.get("scores") or {}),
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


def _completion(output: Mapping[str, Any]) -> str | None:
    if isinstance(output.get("completion"), str):
        return str(output["completion"])
    choices = output.get("choices") or []
    return content_text(choices[0]["message"]["content"]) if choices else None


def _scores(scores: Mapping[str, Any]) -> dict[str, float]:
    """The scores that are numbers, by scorer."""
    numbers = {}
    for scorer, score in scores.items():
        value = score["value"]
        if isinstance(value, str):
            value = _LETTERS.get(value)
        if isinstance(value, bool | int | float):
            numbers[scorer] = float(value)
    return numbers


def _plain(path: Path) -> tuple[Mapping[str, Any], Iterator[Sample]]:
    log = read_json(path)
    _check_head(path, log)
    samples = log.get("samples") or []
    return log, ((f"{path}: sample {n}", sample) for n, sample in enumerate(samples))


def _zipped(path: Path) -> tuple[Mapping[str, Any], Iterator[Sample]]:
    try:
        archive = zipfile.ZipFile(path)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except zipfile.BadZipFile:
        raise DataError(f"{path}: not a whole .eval file (a zip archive)") from None
    names = archive.namelist()
    header = next((name for name in _HEADERS if name in names), None)
    members = sorted(name for name in names if name.startswith("samples/"))
    if header is None or not members:
        return _by_inspect_itself(path)
    head = _member(path, archive, header)
    _check_head(path, head)
    return head, _members(path, archive, members)


def _members(path: Path, archive: zipfile.ZipFile, names: Sequence[str]) -> Iterator[Sample]:
    with archive:
        for name in names:
            yield f"{path}: {name}", _member(path, archive, name)


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> Any:
    if (size := archive.getinfo(name).file_size) > LONGEST:
        raise DataError(f"{path}: {name} has {size:,} bytes; allowed: at most {LONGEST:,}")
    try:
        return json.loads(archive.read(name))
    except (ValueError, RecursionError, zipfile.BadZipFile, EOFError) as error:
        raise DataError(f"{path}: {name} is damaged ({error})") from None
    except NotImplementedError:
        raise DataError(
            f"{path}: {name} is compressed in a way that Python's zipfile cannot read; convert "
            "the log with: inspect log convert --to json"
        ) from None


def _by_inspect_itself(path: Path) -> tuple[Mapping[str, Any], Iterator[Sample]]:
    """A log in another layout, as Inspect's own reader gives it."""
    try:
        from inspect_ai.log import read_eval_log  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise DataError(
            f"{path}: no samples in the layout of inspect_ai 0.3; install inspect_ai, whose own "
            "reader is then used, or convert the log with: inspect log convert --to json"
        ) from None
    log = read_eval_log(str(path)).model_dump(mode="json")
    samples = log.get("samples") or []
    return log, ((f"{path}: sample {n}", sample) for n, sample in enumerate(samples))


def _check_head(path: Path, head: Any) -> None:
    named = isinstance(head, dict) and isinstance(head.get("eval"), dict)
    if not named or not {"task", "model"} <= set(head["eval"]):
        raise DataError(f"{path}: not an Inspect log (no eval with a task and a model)")


def _beginning(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as text:
        return text.read(4096)
