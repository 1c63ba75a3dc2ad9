"""A grid of reports side by side: what they answer first, then each run with what it was told."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from arena_kit.files import visible
from arena_kit.reporting.tables import Cell, Table

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;color:#1f2328;max-width:1100px;margin:24px auto;"
    "padding:0 16px}h1{font-size:26px}h2{font-size:18px;margin-bottom:0}p.soft{color:#57606a}"
    "ul{padding-left:20px}a{color:#0969da}"
)
_PROBABILITY = re.compile(r"P (?:[<>] )?\d+%")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptRun:
    """One run of a grid: what it was told, how it ended, and what it answers."""

    name: str
    parameters: Mapping[str, Any]
    status: str
    error: str = ""
    answer: Sequence[str] = ()
    question: str = ""

    @property
    def told(self) -> str:
        """The parameters in words."""
        return ", ".join(f"{name} {_value(value)}" for name, value in self.parameters.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepIndex:
    """All runs of a grid."""

    notebook: str
    runs: Sequence[SweptRun] = field(repr=False)

    @property
    def finished(self) -> list[SweptRun]:
        """The runs that have an answer."""
        return [run for run in self.runs if run.status == "finished"]

    @property
    def answers(self) -> list[list[SweptRun]]:
        """The runs by their answer; those that differ in probabilities alone are together."""
        groups: dict[tuple[str, ...], list[SweptRun]] = {}
        for run in self.finished:
            groups.setdefault(tuple(map(_conclusion, run.answer)), []).append(run)
        return list(groups.values())

    @property
    def topics(self) -> list[str]:
        """For each topic of the answers whether they agree."""
        said: dict[str, list[str]] = {}
        for run in self.finished:
            for sentence in run.answer:
                topic, colon, rest = sentence.partition(": ")
                if colon:
                    said.setdefault(topic, []).append(_conclusion(rest))
        different = {topic: len(set(rest)) for topic, rest in said.items()}
        return [
            f"{topic}: {'the same in all runs' if n == 1 else f'{n} different answers'}."
            for topic, n in different.items()
        ]

    @property
    def sentences(self) -> list[str]:
        """Whether what was varied changes the answer, and what is missing."""
        done = len(self.finished)
        if not done:
            return [f"No run of {len(self.runs)} finished."]
        n = len(self.answers)
        if done == 1:
            first = "One run finished: nothing is compared."
        elif n == 1:
            first = f"All {done} finished runs give the same answer, up to probabilities."
        else:
            first = f"The answer depends on what was varied: {done} runs give {n} different ones."
        left = len(self.runs) - done
        topics = self.topics if n > 1 else []
        return [
            first,
            *topics,
            *([f"{left} of {len(self.runs)} runs did not finish."] if left else []),
        ]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "notebook": self.notebook,
            "answer": self.sentences,
            "answers": [
                {"answer": list(runs[0].answer), "runs": [run.name for run in runs]}
                for runs in self.answers
            ],
            "runs": [
                {
                    "name": run.name,
                    "parameters": dict(run.parameters),
                    "status": run.status,
                    "answer": list(run.answer),
                    **({"error": run.error} if run.error else {}),
                }
                for run in self.runs
            ],
        }

    @property
    def table(self) -> Table:
        """A row per run: what it was told, what it answers, and its report."""
        names = list(dict.fromkeys(name for run in self.runs for name in run.parameters))
        rows = [
            {
                "run": _link(run),
                **{name: _value(run.parameters.get(name)) for name in names},
                "answer": " ".join(run.answer) or run.error or run.status,
            }
            for run in self.runs
        ]
        return Table(rows=rows, name="runs", left=["run", *names, "answer"], small=True)

    @property
    def html(self) -> str:
        """A page of its own; every text is escaped."""
        first, *rest = self.sentences
        items = "".join(f"<li>{escape(each)}</li>" for each in rest)
        said = f"<p><strong>{escape(first)}</strong></p><ul>{items}</ul>"
        question = next((run.question for run in self.runs if run.question), "")
        groups = "".join(map(_group, self.answers))
        title = f"{self.notebook}: {len(self.runs)} runs"
        return visible(
            "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
            "<meta name='viewport' content='width=device-width, initial-scale=1'>"
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
            f"<h1>{escape(title)}</h1><p class='soft'>{escape(question)}</p>{said}{groups}"
            f"<h2>Every run</h2>{self.table.html}</body></html>\n"
        )


def _conclusion(sentence: str) -> str:
    """A sentence less its probabilities."""
    return _PROBABILITY.sub("P", sentence)


def _group(runs: Sequence[SweptRun]) -> str:
    """One answer, as its first run words it, and what the runs that give it were told."""
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in runs[0].answer)
    told = "; ".join(run.told for run in runs)
    return f"<h2>{escape(told)}</h2><ul>{items}</ul>"


def _link(run: SweptRun) -> Cell | str:
    if run.status != "finished":
        return run.name
    return Cell(run.name, f'<a href="{escape(run.name)}/report.html">{escape(run.name)}</a>')


def _value(value: object) -> str:
    return "" if value is None else str(value)
