"""A judge that repeats recorded verdicts, so that a finished run can be settled anew."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from arena_kit.files import DataError, file_in, read_lines
from arena_kit.judging.pairs.prompts import Pair
from arena_kit.judging.verdicts import records
from arena_kit.judging.verdicts.records import (
    Answer,
    JudgeRequest,
    Status,
    Verdict,
    settle_all,
    verdict_of,
)

Key = tuple[str, str, str, str]
_KEY = ("dimension", "prompt_id", "first", "second")
_KINDS: dict[str, Any] = {
    "raw_text": str,
    "served_model": str | None,
    "usage": dict | None,
    "cost_usd": int | float | None,
    "detail": str | None,
}


@dataclass
class ReplayJudge:
    """Answers from recorded verdict lines, found by dimension, prompt and both entrants.

    The recorded raw text is repeated and read again; what was not recorded stays
    without an answer. Repeating costs nothing; what the recording cost is in its record.
    """

    recorded: dict[Key, dict[str, Any]] = field(repr=False)
    model: str = "replay"

    @cached_property
    def settings(self) -> Mapping[str, object]:
        text = json.dumps(sorted(self.recorded.items()), sort_keys=True)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return {"judge": "replay", "recording": digest}

    @classmethod
    def from_record(cls, path: Path) -> ReplayJudge:
        """Verdicts of a run record (its folder), or of one verdicts JSONL file."""
        files = sorted(file_in(path, "verdicts").glob("*.jsonl")) if path.is_dir() else [path]
        if not files:
            raise DataError(f"{path}: no verdicts/*.jsonl to replay")
        recorded = dict(entry for file in files for entry in _recorded(file))
        models = sorted({str(row.get("judge_model", "")) for row in recorded.values()})
        return cls(recorded=recorded, model=" + ".join(filter(None, models)) or "replay")

    def judgments(self) -> list[records.Judgment]:
        """Everything that was recorded, read and settled anew, with what each verdict cost."""
        graded = any("margin" in row for row in self.recorded.values())
        rows = self.recorded.items()
        return settle_all(self._verdict(key, row, graded=graded) for key, row in rows)

    def _verdict(self, key: Key, row: Mapping[str, Any], *, graded: bool) -> Verdict:
        dimension, prompt, first, second = key
        a, b = sorted((first, second))
        pair = Pair(dimension=dimension, prompt_id=prompt, entrant_a=a, entrant_b=b)
        shown = records.Presentation(pair=pair, first=first, second=second)
        request = JudgeRequest(presentation=shown, system="", user="", boundary="", graded=graded)
        verdict = verdict_of(request, self.answer(request), judge_model=self.model_of(request))
        return verdict._replace(cost_usd=float(row.get("cost_usd") or 0))

    def model_of(self, request: JudgeRequest) -> str:
        """The judge that the recording names for a request."""
        return str((self._row(request) or {}).get("judge_model") or self.model)

    def _row(self, request: JudgeRequest) -> dict[str, Any] | None:
        shown = request.presentation
        pair = shown.pair
        return self.recorded.get((pair.dimension, pair.prompt_id, shown.first, shown.second))

    def answer(self, request: JudgeRequest) -> Answer | None:
        row = self._row(request)
        if row is None:
            return None
        status = Status.OK if row["status"] == Status.UNPARSABLE else Status(row["status"])
        served, usage = row.get("served_model") or "", row.get("usage") or {}
        detail = row.get("detail") or ""
        return Answer(request.request_id, status, row["raw_text"], served, usage, detail=detail)


def _recorded(file: Path) -> Iterable[tuple[Key, dict[str, Any]]]:
    """The verdict lines of a file by what they were about, each checked."""
    for line, row in read_lines(file):
        if missing := [name for name in (*_KEY, "status") if not isinstance(row.get(name), str)]:
            raise DataError(f"{file}:{line}: missing {', '.join(missing)}")
        if wrong := [name for name, kind in _KINDS.items() if not isinstance(row.get(name), kind)]:
            raise DataError(f"{file}:{line}: {wrong[0]} is not of the right kind")
        if row["status"] not in list(Status):
            allowed = ", ".join(Status)
            raise DataError(f"{file}:{line}: unknown status {row['status']!r}; allowed: {allowed}")
        yield (row["dimension"], row["prompt_id"], row["first"], row["second"]), row
