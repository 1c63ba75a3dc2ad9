"""Sentinels: a fixed set of requests, asked again at every run to notice that a judge has changed.

The set is drawn once per judge, rubrics and size from a run's own pairs and kept, with its texts,
in a file beside the ledger; what was answered stands in the ledger, where every look has keys of
its own. A run that is resumed goes on with its look, so that each look is paid for once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from arena_kit.files import DataError, read_json, write_json
from arena_kit.judging.asking.judge_pairs import Material
from arena_kit.judging.drift import DriftReport, Look
from arena_kit.judging.judges.base import Judge, cache_keys
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.pairs.pairing import drawn_in_turn
from arena_kit.judging.pairs.prompts import Pair, Prompt, Response
from arena_kit.judging.verdicts.records import JudgeRequest, Settlement, Verdict
from arena_kit.judging.verdicts.settle import settle_all, verdict_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentinels:
    """Sentinel pairs with their texts, and the runs that have looked, oldest first.

    `looks` has for each look the run, as a fingerprint, and when it began.
    """

    path: Path
    pairs: tuple[Pair, ...]
    material: Material = field(repr=False)
    looks: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls, judge: Judge, ledger: Ledger, pairs: Sequence[Pair], material: Material, n: int
    ) -> Sentinels:
        """The sentinels of `n` requests for a judge and these rubrics: those that are kept, else a
        draw from these pairs, in equal parts of each dimension.
        """
        identity = [
            judge.model,
            dict(judge.settings),
            {name: rubric.digest for name, rubric in material.rubrics.items()},
            n,
        ]
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
        path = ledger.path.parent / "sentinels" / f"{digest}.json"
        if path.is_file():
            return _read(path, material)
        drawn = drawn_in_turn(pairs, n // 2, int(digest, 16))
        if len(drawn) < n // 2:
            raise DataError(
                f"{n} sentinels take {n // 2} pairs, and this run has {len(drawn)}; ask for "
                f"{2 * len(drawn)} or fewer"
            )
        return cls(path=path, pairs=drawn, material=material)

    def begun(self, run: str) -> tuple[Sentinels, int]:
        """The sentinels with a look of this run, in the file from then on, and its number."""
        mark = hashlib.sha256(run.encode()).hexdigest()[:16]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path.with_suffix(".lock")):  # two runs make two looks
            kept = _read(self.path, self.material) if self.path.is_file() else self
            marks = [known for known, _ in kept.looks]
            if mark not in marks:
                now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
                kept = replace(kept, looks=(*kept.looks, (mark, now)))
                write_json(kept.path, _plain(kept))
        return kept, [known for known, _ in kept.looks].index(mark) + 1

    def requests(self, look: int) -> list[JudgeRequest]:
        """What is asked at a look."""
        return self.material.requests(self.pairs, look)

    def report(self, judge: Judge, ledger: Ledger) -> DriftReport:
        """All looks that were answered, and the last one, compared."""
        looks = [
            self._look(number, at, judge, ledger) for number, (_, at) in enumerate(self.looks, 1)
        ]
        kept = [look for look in looks[:-1] if look.answered]
        return DriftReport(judge=judge.model, looks=(*kept, looks[-1]))

    def _look(self, number: int, at: str, judge: Judge, ledger: Ledger) -> Look:
        requests = self.requests(number)
        keys = cache_keys(judge, requests)
        answers = ledger.get(keys)
        verdicts = [
            verdict_of(request, answers.get(key), judge_model=judge.model)
            for key, request in zip(keys, requests, strict=True)
        ]
        return Look(
            number=number,
            at=at,
            flips=tuple(_flip(judgment.settlement) for judgment in settle_all(verdicts)),
            answers=tuple(_named(verdict) for verdict in verdicts),
            served=frozenset(v.served_model for v in verdicts if v.served_model),
        )


def _plain(sentinels: Sentinels) -> dict[str, Any]:
    """What the file holds."""
    pairs, material = sentinels.pairs, sentinels.material
    cells = sorted({(e, p.prompt_id) for p in pairs for e in (p.entrant_a, p.entrant_b)})
    return {
        "pairs": [asdict(pair) for pair in pairs],
        "prompts": [asdict(material.prompts[name]) for name in sorted({c[1] for c in cells})],
        "responses": [
            {
                "entrant_id": entrant,
                "prompt_id": prompt,
                "response_text": material.responses[entrant, prompt].response_text,
            }
            for entrant, prompt in cells
        ],
        "looks": [{"run": run, "at": at} for run, at in sentinels.looks],
    }


def _read(path: Path, material: Material) -> Sentinels:
    """Kept sentinels under the present rubrics, which are those that they were drawn for."""
    row = read_json(path)
    try:
        prompts = [Prompt(**each) for each in row["prompts"]]
        responses = [Response(**each) for each in row["responses"]]
        return Sentinels(
            path=path,
            pairs=tuple(Pair(**each) for each in row["pairs"]),
            material=replace(
                material,
                prompts={prompt.prompt_id: prompt for prompt in prompts},
                responses={(r.entrant_id, r.prompt_id): r for r in responses},
            ),
            looks=tuple((each["run"], each["at"]) for each in row["looks"]),
        )
    except (KeyError, TypeError, DataError) as error:
        raise DataError(
            f"{path}: not a file of sentinels ({error}); remove it to draw them anew"
        ) from None


def _flip(settlement: Settlement) -> bool | None:
    if settlement is Settlement.INCOMPLETE:
        return None
    return settlement is Settlement.INCONSISTENT


def _named(verdict: Verdict) -> str | None:
    return str(verdict.winner) if verdict.winner else None
