"""Responses made here: from an entrant's definition to its responses file.

The ledger remembers every answer; the file is written from it, a line as each comes. A
line carries the hash of the definition that made it, and none of another is ever used.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from arena_kit.battles.content import Conversation
from arena_kit.files import DataError, append_lines, whole_lines, write_jsonl
from arena_kit.judging.asking import cost
from arena_kit.judging.asking.judge_pairs import ask
from arena_kit.judging.asking.options import AskOptions
from arena_kit.judging.judges.base import PaidJudge, cache_keys
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.pairs.pairing import select_subset
from arena_kit.judging.pairs.prompts import Prompt, Response, read_prompts, responses_file
from arena_kit.judging.verdicts.records import Answer, Status
from arena_kit.runs.record.progress import Progress, judging_progress
from arena_kit.runs.record.record import Record, find_root, runs_folder, utc_now
from arena_kit.runs.settings import files
from arena_kit.runs.settings.judges import Backend, paid_settings
from arena_kit.runs.settings.parameters import GenerateParams, JudgeParams

#: Statuses of an answer that is the entrant's own: what it said, or that it would not.
_RESPONSES = (Status.OK, Status.REFUSED, Status.TRUNCATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A prompt put to an entrant."""

    entrant: str
    prompt: Prompt
    definition: files.EntrantDefinition

    def __post_init__(self) -> None:
        if isinstance(self.prompt.text, Conversation):
            raise DataError(
                f"prompt {self.prompt.prompt_id} is a conversation; only plain texts are put to "
                f"{self.entrant}: import its responses instead"
            )

    @property
    def request_id(self) -> str:
        return f"generate|{self.entrant}|{self.prompt.prompt_id}"

    @property
    def prompt_id(self) -> str:
        return self.prompt.prompt_id

    @property
    def system(self) -> str:
        return self.definition.system

    @property
    def user(self) -> str:
        return self.prompt.text

    @property
    def pieces(self) -> list[str]:
        return [self.user]

    @property
    def seed(self) -> int | None:
        """A seed of the prompt's own, from the definition's."""
        if self.definition.seed is None:
            return None
        text = f"{self.definition.seed}|{self.prompt.prompt_id}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1

    @property
    def identity(self) -> bytes:
        own = {"entrant": self.entrant, "prompt_id": self.prompt.prompt_id}
        return to_json(own | {"definition": self.definition.digest, "seed": self.seed})

    def row(self, answer: Answer) -> dict[str, object]:
        """The answer as a line of the entrant's responses file."""
        return {
            "entrant_id": self.entrant,
            "prompt_id": self.prompt.prompt_id,
            "response_text": answer.text,
            "diagnostics": {
                "definition": self.definition.digest,
                "model": self.definition.model,
                "served_model": answer.served_model,
                "status": str(answer.status),
                "usage": answer.usage,
                "cost_usd": answer.cost_usd,
                **({} if self.seed is None else {"seed": self.seed}),
            },
            "timestamp": utc_now(),
        }


def refuse_stale(
    responses: Mapping[tuple[str, str], Response],
    definitions: Mapping[str, files.EntrantDefinition],
    folder: Path,
) -> None:
    """Raise when a defined entrant's file holds what another definition made."""
    for (entrant, prompt_id), response in responses.items():
        definition = definitions.get(entrant)
        if definition and response.diagnostics.get("definition") != definition.digest:
            raise DataError(
                f"{responses_file(folder, entrant)}: the response to {prompt_id!r} was not made "
                f"by {entrant}'s present definition; run `arena-kit generate`"
            )


@dataclass(frozen=True, kw_only=True)
class Generation:
    """The entrants to fill, the prompts to put to them, and what that would cost."""

    root: Path
    params: GenerateParams
    tournament: files.TournamentFile
    prompts: list[Prompt] = field(repr=False)

    @classmethod
    def read(cls, parameters: dict[str, Any], where: str) -> Generation:
        """Validate parameters and inputs."""
        params = files.validated(GenerateParams, parameters, where)
        root = find_root()
        tournament = files.read_tournament(root / params.tournament)
        bank = read_prompts(root / tournament.prompts)
        prompts = select_subset(bank, params.strata, params.seed) if params.strata else bank
        defined = ", ".join(tournament.generate) or "none"
        for entrant in params.entrants:
            if entrant not in tournament.generate:
                raise DataError(f"{entrant!r} has no definition to generate by; defined: {defined}")
        if not tournament.generate:
            raise DataError(f"{params.tournament}: no entrant is defined under `generate`")
        return cls(root=root, params=params, tournament=tournament, prompts=prompts)

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.root / self.tournament.verdicts)

    def jobs(self) -> dict[str, Job]:
        """The entrants to fill, and who is asked."""
        defined, own = self.tournament.generate, (self.prompts, self.tournament, self.root)
        wanted = self.params.entrants or [*defined]
        return {name: Job.of(name, defined[name], *own, self.params) for name in wanted}

    def forecasts(self) -> dict[str, cost.Forecast]:
        """What each entrant's missing responses would cost."""
        return {entrant: job.forecast() for entrant, job in self.jobs().items()}

    def run(self) -> Record:
        """Fill every entrant's responses file; leaves a record of what was made and paid."""
        jobs = self.jobs()
        if not self.params.offline:
            cost.refuse_without_cap([job.judge for job in jobs.values()], self.params.max_cost_usd)
            paid = {name: job.forecast() for name, job in jobs.items() if not job.judge.price.free}
            cost.refuse_above_cap(paid, self.params.max_cost_usd)
        record = Record.create(runs_folder(self.root), "generate")
        record.start("generate", self.params.model_dump(mode="json"))
        with record.failing(lambda _: record.add_spent(self.ledger)):
            filled = {}
            for entrant, job in jobs.items():
                file = responses_file(self.root / self.tournament.responses, entrant)
                filled[entrant] = job.fill(file, record, shown=sys.stderr.isatty())
                filled[entrant]["file"] = str(file.relative_to(self.root))
        record.update(tournament=self.tournament.model_dump(mode="json"), entrants=filled)
        record.add_spent(self.ledger)
        return record.close()


@dataclass(frozen=True, kw_only=True)
class Job:
    """One entrant's answers to be made: its questions by cache key, and who is asked.

    `expected_tokens` is how many an answer is taken to have until enough of them say better.
    """

    entrant: str
    definition: files.EntrantDefinition
    judge: PaidJudge
    questions: dict[str, Question] = field(repr=False)
    ledger: Ledger
    max_tries: int
    params: GenerateParams | JudgeParams
    expected_tokens: int

    @classmethod
    def of(
        cls,
        entrant: str,
        definition: files.EntrantDefinition,
        prompts: Sequence[Prompt],
        tournament: files.TournamentFile,
        root: Path,
        params: GenerateParams | JudgeParams,
    ) -> Job:
        """The prompts put to an entrant by its definition, under a tournament file's settings."""
        questions = [Question(entrant=entrant, prompt=p, definition=definition) for p in prompts]
        base = paid_settings(definition.backend, tournament.judge)
        shaping = {"max_tokens", "effort", "temperature"} & {*type(base).model_fields}
        settings = base.model_copy(update=definition.model_dump(include=shaping))
        backend = Backend(kind=definition.backend, **definition.shared_with(Backend))
        judge = backend.judge(
            settings, files.read_prices(root / tournament.prices), root, verdict=False
        )
        return cls(
            entrant=entrant,
            definition=definition,
            judge=judge,
            questions=dict(zip(cache_keys(judge, questions), questions, strict=True)),
            ledger=Ledger(root / tournament.verdicts),
            max_tries=tournament.judge.max_tries,
            params=params,
            expected_tokens=definition.max_tokens // 2,
        )

    def fresh(self) -> dict[str, Question]:
        settled = self.ledger.settled(self.questions)
        return {key: q for key, q in self.questions.items() if key not in settled}

    @cached_property
    def budget(self) -> cost.Budget:
        """What the answers may cost."""
        fresh = list(self.fresh().values())
        return cost.Budget(
            judge=self.judge,
            ledger=self.ledger,
            estimator=cost.Estimator.of(self.judge, fresh, ask=not self.params.offline),
            expected_tokens=self.expected_tokens,
            cap_usd=self.params.max_cost_usd,
            purpose=f"generate {self.definition.digest[:12]}",
        )

    def forecast(self) -> cost.Forecast:
        """What the answers that the ledger does not have would cost."""
        fresh = self.fresh()
        return self.budget.forecast(fresh.values(), answered=len(self.questions) - len(fresh))

    def answers(self) -> dict[str, Response]:
        """What the ledger has of the entrant's own answers, by prompt."""
        made = {
            self.questions[key].prompt_id: answer.text
            for key, answer in self.ledger.get(self.questions).items()
            if answer.status in _RESPONSES
        }
        whose = self.entrant
        return {q: Response(entrant_id=whose, prompt_id=q, response_text=made[q]) for q in made}

    def fill(self, file: Path, record: Record, *, shown: bool = True) -> dict[str, Any]:
        """Fill the entrant's responses file under a progress bar; returns by which definition, how
        many there are by status, and what failed.
        """
        with judging_progress(record, unit="response", shown=shown) as progress:
            failed = self._ask(file, progress)
        rows, _ = whole_lines(file) if file.is_file() else ([], True)
        return {
            "definition": self.definition.digest,
            "model": self.definition.model,
            "responses": dict(Counter(str(row["diagnostics"]["status"]) for row in rows)),
            "failed": {prompt: answer.detail for prompt, answer in failed.items()},
        }

    def _ask(self, file: Path, progress: Progress) -> dict[str, Answer]:
        """Write what the ledger has, then ask for the rest, writing as it comes; returns what
        failed, by prompt.
        """
        run, written = progress.record.token, self._kept_rows(file)

        def write(_n: int) -> None:
            self._write(file, written)
            progress.show(len(written), len(self.questions))

        write(0)
        fresh = self.fresh()
        if fresh and self.params.offline:
            raise DataError(f"offline, but {len(fresh)} responses of {file} are not made")
        how: dict[str, Any] = {"max_tries": self.max_tries, "budget": self.budget}
        options = AskOptions(run=run, say=progress.say, answered=bool(written), **how)
        answers = ask(fresh, self.judge, self.ledger, options, write) if fresh else {}
        answers = self.ledger.get(self.questions) | answers
        return {
            self.questions[key].prompt_id: answer
            for key, answer in answers.items()
            if answer.status not in _RESPONSES
        }

    def _kept_rows(self, file: Path) -> set[str]:
        """Prompt ids that the file already answers by this definition; the rest is dropped."""
        rows, whole = whole_lines(file) if file.is_file() else ([], True)
        kept = {}
        for row in rows:
            diagnostics = row.get("diagnostics")
            if not isinstance(diagnostics, dict) or "definition" not in diagnostics:
                raise DataError(
                    f"{file}: holds responses made elsewhere; move the file, or take the "
                    "entrant out of `generate`"
                )
            if diagnostics["definition"] == self.definition.digest:
                kept[str(row["prompt_id"])] = row
        if len(kept) != len(rows) or not whole:
            write_jsonl(file, kept.values())
        return set(kept)

    def _write(self, file: Path, written: set[str]) -> None:
        """Append the ledger's new answers to the file; an interrupt may lose a line, which the
        next run writes, but repeats none.
        """
        todo = {k: q for k, q in self.questions.items() if q.prompt.prompt_id not in written}
        answers = self.ledger.get(todo).items()
        rows = [todo[key].row(answer) for key, answer in answers if answer.status in _RESPONSES]
        written |= {str(row["prompt_id"]) for row in rows}
        append_lines(file, [json.dumps(row, ensure_ascii=False) for row in rows])
