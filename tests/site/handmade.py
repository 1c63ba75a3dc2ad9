"""Records made by hand: any name in any field, any text, any number of battles."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import yaml

from arena_kit.files import file_hash, write_json, write_text


def write_jsonl(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Lines of JSON in ASCII, which may hold what UTF-8 cannot: lone surrogates."""
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


@dataclass(frozen=True, kw_only=True)
class Handmade:
    """What a record holds: names of models by their ids, texts, and what everybody says."""

    models: dict[str, str]
    prompts: dict[str, str]
    response: str = "An answer."
    said: str = "It is better."
    anything: str = "plain"
    questions: dict[str, str] = field(default_factory=dict)
    dimension: str = "tone"
    report: str = "<p>report</p>"
    kept: bool = True

    def write(self, record: Path) -> Path:
        """The whole record; in each pair the first model wins, on every third prompt neither."""
        write_jsonl(record / "battles.jsonl", self._battles())
        write_jsonl(record / "verdicts" / "tone.jsonl", self._verdicts())
        write_json(record / "board.json", self._board())
        answer = {"said": [self.anything] * 2, "caveats": [self.anything]}
        write_json(record / "answer.json", answer)
        write_text(record / "report.html", f"<!doctype html><title>report</title>{self.report}")
        self._inputs(record / "inputs")
        kept = [path for path in (record / "inputs").rglob("*") if path.is_file()]
        inputs = {
            path.relative_to(record / "inputs").as_posix(): {
                "bytes": path.stat().st_size, "sha256": file_hash(path), "kept": self.kept,
            }
            for path in kept
        }  # fmt: skip
        write_json(record / "manifest.json", self._manifest() | {"inputs": inputs})
        return record

    @property
    def _names(self) -> Sequence[str]:
        return list(self.models.values())

    def _manifest(self) -> dict[str, Any]:
        text = self.anything
        return {
            "mode": text, "status": text, "error": text, "started_at": text, "finished_at": text,
            "judge": {"model": text}, "cost": {"usd_spent": 0.25}, "arena": text,
            "dimensions": [self.dimension], "entrants": self._names, "unrated": {},
            "tournament": {"name": text}, "versions": {"arena-kit": text},
            "code": {"commit": text}, "bank_size": 3, "selected_prompt_count": text,
        }  # fmt: skip

    def _battles(self) -> Iterator[dict[str, Any]]:
        for n, prompt in enumerate(self.prompts):
            for a, b in combinations(self.models, 2):
                yield {
                    "battle_id": f"tone|{prompt}|{a}|{b}", "model_a": self.models[a],
                    "model_b": self.models[b], "winner": "tie" if n % 3 == 2 else "model_a",
                    "source": "llm-judge", "question_id": self.questions.get(prompt, prompt),
                    "dimension": self.dimension, "judge_model": "judge", "inconsistent": n % 3 == 2,
                }  # fmt: skip

    def _verdicts(self) -> Iterator[dict[str, Any]]:
        for prompt in self.prompts:
            for pair in combinations(self.models, 2):
                for first, second in (pair, pair[::-1]):
                    yield {
                        "dimension": "tone", "prompt_id": prompt, "first": first, "second": second,
                        "status": self.anything, "winner": "A", "winning_entrant": self.anything,
                        "margin": self.anything,
                        "justification": self.said, "raw_text": self.said,
                        "judge_model": self.anything, "served_model": self.anything,
                        "detail": self.anything,
                    }  # fmt: skip

    def _board(self) -> dict[str, Any]:
        text, elo = self.anything, {"rating": 1400.0, "order_sem": 1.0}
        rows = [
            {"dimension": self.dimension, "rank": n + 1, "model": name, "rating": 1500.0 - n,
             "ci_low": 1400.0 - n, "ci_high": 1600.0 - n, "n_battles": 10, "ranks": [1, 2],
             "beside": {"elo": elo}}
            for n, name in enumerate(self._names)
        ]  # fmt: skip
        dimension = {"name": self.dimension, "sentences": [text], "notes": [text]}
        return {
            "version": 1, "title": text, "method": text, "settings": {}, "ratings": rows,
            "n_battles": 10, "dropped": {}, "dimensions": [dimension], "notes": [text],
        }  # fmt: skip

    def _inputs(self, folder: Path) -> None:
        tournament = {
            "name": "handmade", "entrants": list(self.models), "prompts": "prompts.jsonl",
            "responses": "responses", "verdicts": "v.sqlite", "judge": {}, "elo": {"k_sweep": [16]},
            "dimensions": {"tone": {"rubric": "rubrics/tone.md", "version": "1"}},
        }  # fmt: skip
        write_text(folder / "tournament.yaml", yaml.safe_dump(tournament))
        rows = [{"prompt_id": p, "text": t, "source": "plain"} for p, t in self.prompts.items()]
        write_jsonl(folder / "prompts.jsonl", rows)
        for entrant in self.models:
            write_jsonl(
                folder / "responses" / f"responses_{entrant}.jsonl",
                [
                    {"entrant_id": entrant, "prompt_id": p, "response_text": self.response}
                    for p in self.prompts
                ],
            )
        write_json(folder / "names.json", {"models": self.models, "questions": self.questions})
