"""Samples of the LM Evaluation Harness (lm-eval 0.4): `samples_<task>_<date>.jsonl`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from arena_kit.files import DataError, read_lines
from arena_kit.judging.pairs.answer_logs.answer import Answer, conversation_text, digest_of, safe_id

_NAME = re.compile(r"samples_(?P<task>.+?)_\d{4}-\d{2}-\d{2}T.*")
_NEEDED = {"doc_id", "arguments", "resps"}


class LmEvalSamples:
    """The samples of one task and model; the file does not name the model, its folder does."""

    title = "lm-eval samples"
    follows = "lm-eval 0.4, loggers/evaluation_tracker.py"

    def recognises(self, path: Path) -> bool:
        return path.suffix == ".jsonl" and first_row(path).keys() >= _NEEDED

    def answers(self, path: Path, entrant: str, left_out: Counter[str]) -> Iterator[Answer]:
        named = _NAME.fullmatch(path.name)
        task = named["task"] if named else path.stem
        model = entrant or safe_id(path.resolve().parent.name)
        seen = set()
        for line, row in read_lines(path):
            place = f"{path}:{line}"
            try:
                answer = _answer(place, task, model, row)
            except (KeyError, TypeError, IndexError, AttributeError) as error:
                raise DataError(f"{place}: not a sample of lm-eval ({error!r})") from None
            if isinstance(answer, str):
                left_out[answer] += 1
            elif answer.sample not in seen:  # a row per filter: the answer is the same
                seen.add(answer.sample)
                yield answer


def first_row(path: Path) -> dict[str, Any]:
    """The first row of a JSONL file; empty where there is none that can be read."""
    try:
        return next((row for _, row in read_lines(path)), {})
    except DataError:
        return {}


def _answer(place: str, task: str, model: str, row: Mapping[str, Any]) -> Answer | str:
    """The answer of a row, or why it has none."""
    text = row["resps"][0]
    text = text[0] if isinstance(text, list) else text
    if not isinstance(text, str):
        return "samples scored by likelihood, without an answer in text"
    prompt = _prompt(row["arguments"])
    if not prompt:
        return "samples whose prompt is not text"
    named = row.get("metrics") or []
    scores = {name: row[name] for name in named if isinstance(row.get(name), bool | int | float)}
    return Answer(
        task=task,
        sample=str(row["doc_id"]),
        model=model,
        prompt=prompt,
        text=text,
        same=row.get("doc_hash") or digest_of(json.dumps(row.get("doc"), sort_keys=True)),
        place=place,
        target=None if row.get("target") in (None, "") else str(row["target"]),
        scores={name: float(value) for name, value in scores.items()},
    )


def _prompt(arguments: Any) -> str | None:
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
    return conversation_text(messages) if chat and messages else text
