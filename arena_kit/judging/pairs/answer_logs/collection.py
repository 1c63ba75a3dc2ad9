"""Answers of several logs together, as prompts and responses for a tournament."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena_kit.files import DataError, write_csv, write_jsonl
from arena_kit.judging.pairs.answer_logs.answer import Answer, AnswerLog, safe_id
from arena_kit.judging.pairs.answer_logs.arena_hard import ArenaHardAnswers
from arena_kit.judging.pairs.answer_logs.inspect_ai import InspectLog
from arena_kit.judging.pairs.answer_logs.lm_eval import LmEvalSamples, first_row
from arena_kit.judging.pairs.prompts import Prompt, Response, file_row, responses_file

LOGS: tuple[AnswerLog, ...] = (InspectLog(), LmEvalSamples(), ArenaHardAnswers())
#: A table of scores as `read_battles` takes it: the scorer is the dimension.
SCORE_COLUMNS = ("question_id", "model", "score", "dimension")


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
        scores, scores.csv.
        """
        write_jsonl(folder / "prompts.jsonl", (file_row(prompt) for prompt in self.prompts))
        for entrant in self.entrants:
            mine = (file_row(r) for r in self.responses if r.entrant_id == entrant)
            write_jsonl(responses_file(folder / "responses", entrant), mine)
        if self.scores:
            write_csv(folder / "scores.csv", self.scores, SCORE_COLUMNS)


def collect(logs: Sequence[tuple[str, Path]]) -> Collection:
    """The answers of logs, each with the entrant that it is to count for, or '' for the model
    that it names.

    Samples are joined by task and id; two that asked something else under one id are refused, and
    so is a second answer of one entrant.
    """
    left_out: Counter[str] = Counter()
    first: dict[str, Answer] = {}
    answered: dict[tuple[str, str], Answer] = {}
    for answer in _answers(logs, left_out):
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
        raise DataError(f"no answers in {', '.join(str(path) for _, path in logs)}")
    return Collection(
        prompts=tuple(_prompt(answer) for answer in first.values()),
        responses=tuple(_response(answer) for answer in answered.values()),
        scores=tuple(row for answer in answered.values() for row in _scores(answer)),
        left_out=dict(left_out),
    )


def _answers(logs: Sequence[tuple[str, Path]], left_out: Counter[str]) -> Iterator[Answer]:
    for entrant, path in logs:
        yield from _log_of(path).answers(path, entrant, left_out)


def _log_of(path: Path) -> AnswerLog:
    """The kind of log that a file is."""
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    for log in LOGS:
        if log.recognises(path):
            return log
    keys = ", ".join(list(first_row(path))[:12]) if path.suffix == ".jsonl" else ""
    titles = ", ".join(log.title for log in LOGS)
    found = f"; found: {keys}" if keys else ""
    raise DataError(f"{path}: not a log of answers; allowed: {titles}{found}")


def _prompt(answer: Answer) -> Prompt:
    try:
        return Prompt(
            prompt_id=answer.prompt_id,
            text=answer.prompt,
            source=safe_id(answer.task),
            gold_answer=answer.target,
        )
    except DataError as error:
        raise DataError(f"{answer.place}: {error}") from None


def _response(answer: Answer) -> Response:
    try:
        return Response(
            entrant_id=answer.model,
            prompt_id=answer.prompt_id,
            response_text=answer.text,
            diagnostics={"scores": dict(answer.scores)} if answer.scores else {},
        )
    except DataError as error:
        raise DataError(f"{answer.place}: {error}") from None


def _scores(answer: Answer) -> Iterator[dict[str, Any]]:
    for scorer, score in answer.scores.items():
        yield {
            "question_id": answer.prompt_id,
            "model": answer.model,
            "score": score,
            "dimension": scorer,
        }
