"""The first step: what a run would ask, of whom and for how much, before anything is sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from arena_kit.battles.content import has_reasoning, without_reasoning
from arena_kit.battles.log import BattleLog
from arena_kit.battles.tabular import listed
from arena_kit.files import DataError, file_hash
from arena_kit.judging.asking.cost import Budget, Estimator, Forecast, dollars, refuse_without_cap
from arena_kit.judging.asking.judge_pairs import Material
from arena_kit.judging.asking.options import AskOptions
from arena_kit.judging.judges.base import Judge, PaidJudge, Price, cache_keys, refuse_unseen
from arena_kit.judging.judges.baseline import unread_rubrics
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.pairs.pairing import Pairing, build_pairs, drawn_in_turn, select_subset
from arena_kit.judging.pairs.prompts import Pair, Prompt, Response, read_prompts, read_responses
from arena_kit.judging.quality.canaries import PREFIX, Canaries, Suite, canary_pairs
from arena_kit.judging.quality.gate import Rule
from arena_kit.judging.quality.judge import JudgeQuality
from arena_kit.judging.quality.measures import Families, lengths_of
from arena_kit.judging.verdicts.records import REPEAT, SHARES, JudgeRequest, Judgment, Status
from arena_kit.judging.verdicts.rendering import Rubric
from arena_kit.reporting import tables, tournament_tables
from arena_kit.runs.record.inputs import InputFiles, labels_of, tournament_inputs
from arena_kit.runs.record.record import find_root
from arena_kit.runs.settings.files import TournamentFile, read_gate, read_rubrics
from arena_kit.runs.settings.judges import make_judge, paid_settings
from arena_kit.runs.settings.parameters import JudgeParams, RunParams, resolve_parameters
from arena_kit.runs.tournament.generate import refuse_stale
from arena_kit.runs.tournament.protocol import read_protocol
from arena_kit.runs.tournament.rejudge import Rejudged, rejudged

MAX_PAIRS = 500_000
LEXICAL = (
    "The demo judge compares words, not meaning: its verdicts demonstrate the system, not which "
    "answer an expert would prefer."
)
#: What a report says of graded verdicts.
_GRADED_SHARES = (
    "graded: "
    + ", ".join(f"{margin} counts {share:g} of a win" for margin, share in SHARES.items())
    + " (mean of both orders)"
)


def is_lexical(model: str) -> bool:
    """Whether a model is the demo judge."""
    return model.startswith("baseline/")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run would judge, by whom and for how much; nothing has been sent or written.

    Read one with `read_plan`, look at its `facts` and `forecast`, and put it to `judge`.
    """

    mode: str
    root: Path
    params: JudgeParams
    tournament: TournamentFile
    files: InputFiles = field(repr=False)
    prompts: list[Prompt] = field(repr=False)
    pairing: Pairing = field(repr=False)
    material: Material = field(repr=False)
    judge: Judge
    rejudged: Rejudged | None = field(default=None, repr=False)

    @classmethod
    def of(cls, mode: str, params: RunParams) -> Plan:
        """The plan of valid parameters: all inputs read, the judge ready to be asked."""
        root = find_root()
        tournament, files = tournament_inputs(root / params.tournament, root)
        tournament = params.override(tournament)
        bank = read_prompts(files.prompts)
        prompts = select_subset(bank, params.strata, params.seed) if params.strata else bank
        responses = read_responses(
            files.responses, tournament.entrants, [p.prompt_id for p in bank]
        )
        refuse_stale(responses, tournament.generate, files.responses)
        rubrics = read_rubrics(tournament.dimensions, files.rubrics)
        judge = make_judge(mode, params, tournament, root)
        material = material_of(bank, responses, rubrics, tournament, root)
        pairing, again = _paired(params, tournament, prompts, material, judge), None
        if tournament.judge.rejudge:
            if mode == "adaptive":
                raise DataError("judge.rejudge needs recorded pairs; adaptive chooses its own")
            if params.judge == "replay":
                why = "replay only repeats one"
                raise DataError(f"judge.rejudge needs a judge that can be called; {why}")
            record = root / tournament.judge.replay_from
            pairing, again = rejudged(record, tournament.judge.rejudge, pairing, material)
        return cls(
            mode=mode,
            root=root,
            params=params,
            tournament=tournament,
            files=files,
            prompts=prompts,
            pairing=pairing,
            material=material,
            judge=judge,
            rejudged=again,
        )

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.root / self.tournament.verdicts)

    @property
    def price(self) -> Price | None:
        """What the judge's tokens cost; None for a judge that needs none."""
        return self.judge.price if isinstance(self.judge, PaidJudge) else None

    def quality(self, judge: str, judgments: Sequence[Judgment], **more: Any) -> JudgeQuality:
        """What judgments of the plan's pairs show of a judge; `more` as `JudgeQuality.of` takes
        it.
        """
        known: dict[str, Any] = {
            "lengths": lengths_of(self.material.responses),
            "families": Families.around(judge, self.tournament.judge.families),
            "unread": unread_rubrics(judge, self.material.rubrics.values()),
        }
        return JudgeQuality.of(judge, judgments, **known | more)

    @cached_property
    def rules(self) -> dict[str, Rule]:
        """What the judge must keep."""
        return read_gate(self.root, self.tournament.judge.gate)

    @cached_property
    def labels(self) -> BattleLog | None:
        """People's votes or gold labels on the same battles, where the tournament file has any."""
        return labels_of(self.root, self.tournament.judge)

    @property
    def spends(self) -> bool:
        """Whether the judge is paid for what it is asked."""
        return self.price is not None and not self.price.free and not self.params.offline

    @property
    def buys(self) -> bool:
        """Whether this run would pay its judge: the ledger does not have all the answers."""
        return self.spends and bool(self._fresh)

    @cached_property
    def canaries(self) -> Canaries | None:
        """What is asked before the bulk; none of a recording, and none where it is not wanted."""
        return self._canary_pairs("preflight", wanted=self.tournament.judge.preflight)

    @cached_property
    def suite(self) -> Canaries | None:
        """All canaries, where the notebook asks for them; none of a recording."""
        return self._canary_pairs("full", wanted=self.params.full_suite)

    def _canary_pairs(self, suite: Suite, *, wanted: bool) -> Canaries | None:
        if not wanted or self.params.judge == "replay":
            return None
        own = self.material
        return canary_pairs(own.rubrics, salt=own.salt, suite=suite, graded=own.graded)

    def repeated(self, pairs: Sequence[Pair]) -> tuple[Pair, ...]:
        """Those of some pairs that are asked twice; none of a recording, nor where the parameters
        want none.
        """
        n = self.tournament.judge.repeats
        if not n or self.params.judge == "replay":
            return ()
        return drawn_in_turn(pairs, n // 2, self.params.seed)

    @cached_property
    def bulk(self) -> list[JudgeRequest]:
        """The requests on all pairs that the ledger cannot answer, as it stands at first use."""
        return self.unanswered(self.material.requests(self.asked))

    @cached_property
    def asked(self) -> list[Pair]:
        """The pairs that the judge is asked about: all but those whose recorded judgment stands."""
        kept = {judgment.pair for judgment in self.rejudged.kept} if self.rejudged else set()
        return [pair for pair in self.pairing.pairs if pair not in kept]

    @cached_property
    def _fresh(self) -> list[JudgeRequest]:
        """The requests that would be sent: canaries before a bulk, the bulk, repeats."""
        canaries = [self.canaries if self.bulk else None, self.suite]
        asked = [request for each in canaries if each for request in each.requests()]
        twice = self.material.requests(self.repeated(self.asked), REPEAT)
        return [*self.unanswered(asked), *self.bulk, *self.unanswered(twice)]

    def unanswered(self, requests: Sequence[JudgeRequest]) -> list[JudgeRequest]:
        """Those of some requests that the ledger cannot answer; equal ones once."""
        by_key = dict(zip(cache_keys(self.judge, requests), requests, strict=True))
        settled = self.ledger.settled(by_key)
        return [request for key, request in by_key.items() if key not in settled]

    @property
    def forecast(self) -> Forecast | None:
        """What this run would send and what that costs; None where nothing can cost. Tokens are
        estimated from lengths, unless the service was asked before (`cost`).
        """
        counted = "_counted" in self.__dict__
        return self._counted if counted else self._forecast(self._budget(ask=False))

    def cost(self) -> Forecast | None:
        """The forecast by tokens that the service counts on some requests, which is free; None
        where nothing can cost.
        """
        return self._counted

    @cached_property
    def _counted(self) -> Forecast | None:
        return self._forecast(self.budget)

    def _forecast(self, budget: Budget | None) -> Forecast | None:
        answered = 2 * len(self.asked) - len(self.bulk)
        return None if budget is None else budget.forecast(self._fresh, answered=answered)

    @property
    def prewarms(self) -> bool:
        """Whether one request per rubric is sent ahead: where the settings say so and, by the
        forecast, hits of the prompt cache would be cheaper than no caching.
        """
        cost, wanted = self.cost(), self.tournament.judge.prewarm
        return wanted and cost is not None and cost.usd_all_hits < cost.usd_no_cache

    def ask_again(self, status: Status, say: Callable[[str], None]) -> None:
        """Have the next run ask again for what has this final status in the ledger; says how much
        that is, and refuses, changing nothing, what the cap would refuse.
        """
        if self.params.offline:
            raise DataError("an offline run sends no request, so none can be repeated")
        first = self.material.requests(self.asked)
        attempts = range(1, self.tournament.judge.max_attempts + 1)
        requests = [request._replace(attempt=n) for n in attempts for request in first]
        by_key = dict(zip(cache_keys(self.judge, requests), requests, strict=True))
        answers = self.ledger.get(by_key).items()
        ended = {key: by_key[key] for key, answer in answers if answer.status is status}
        if not ended or self.budget is None:
            say(f"no request of this run ended as {status}; none is repeated")
            return
        self.refuse_without_cap()
        with self.ledger.locked(""):
            self.ask_options("", say).allow([*self._fresh, *ended.values()])
            self.ledger.reopen(ended)
        may_cost = dollars(self.budget.forecast(ended.values()).usd_no_hits)
        say(f"{len(ended)} requests that ended as {status} are repeated, for about {may_cost}")

    def prompt_set(self) -> dict[str, Any]:
        """Which prompts are judged: their file with its hash, and how many of each stratum."""
        return {
            "file": str(self.tournament.prompts),
            "sha256": file_hash(self.files.prompts),
            "bank": len(self.material.prompts),
            "selected": len(self.prompts),
            "strata": dict(Counter(prompt.source for prompt in self.prompts)),
        }

    @property
    def looks(self) -> int:
        """How often the board is read: once, or after every round of an adaptive run, of which
        most have a dozen; benchmarks/adaptive.py prints what this level holds.
        """
        return 12 if self.mode == "adaptive" else 1

    @property
    def rating(self) -> dict[str, Any]:
        """How `rate` makes the board of this tournament: Bradley–Terry with Elo beside it. In an
        adaptive run inconsistent pairs are ties, on average what one of their orders says.
        """
        elo, method = self.tournament.elo, self.tournament.elo.bradley_terry(self.looks)
        return {
            "method": replace(method, inconsistent="tie") if self.mode == "adaptive" else method,
            "elo": elo.method(),
            "dimensions": list(self.tournament.dimensions),
            "models": self.tournament.entrants,
            "margin": self.tournament.report.margin,
            "strata": self.strata,
        }

    @property
    def strata(self) -> dict[str, dict[str, str]]:
        """The stratum of each prompt, on the axes of the tournament file."""
        return {
            axis: {p.prompt_id: s for p in self.prompts if (s := p.stratum(axis)) is not None}
            for axis in self.tournament.report.strata
        }

    @cached_property
    def protocol(self) -> dict[str, Any] | None:
        """The protocol that the run is held against; None without one."""
        file = self.tournament.protocol
        return None if file is None else read_protocol(self.root / file)

    @property
    def facts(self) -> dict[str, str]:
        """The plan in words: judge, entrants, prompts, requests and rating."""
        tournament, params = self.tournament, self.params
        method, settings = tournament.elo.method(), tournament.judge
        rubrics = ", ".join(f"{r.dimension} v{r.version}" for r in self.material.rubrics.values())
        lexical = " (demo judge, ignores rubrics)" * is_lexical(self.judge.model)
        only = f" of {settings.only_entrant}" if settings.only_entrant else ""
        canaries = 2 * len(self.canaries.pairs) if self.canaries else 0
        absent = [f"{entrant} on {prompt}" for entrant, prompt in self.pairing.missing]
        return {
            "tournament": tournament.name,
            "judge": f"{self.judge.model}{lexical}, {self._service}",
            **({"judged again": self.rejudged.fact} if self.rejudged else {}),
            "entrants": ", ".join(sorted(tournament.entrants)),
            "prompts": prompts_text(self),
            "rubrics": rubrics,
            **({"verdicts": _GRADED_SHARES} if settings.graded else {}),
            **({"reasoning": self._reasoning} if self._reasoning else {}),
            "requests": f"{2 * len(self.asked):,} ({len(self.asked):,} pairs{only} in both orders),"
            f" of which {2 * len(self.asked) - len(self.bulk):,} are in the ledger",
            "further requests": f"{canaries} canaries before and {settings.repeats} repeats after, "
            "unless they are in the ledger",
            "missing responses": f"{len(absent)}{f': {listed(absent)}' if absent else ''} (dropped "
            f"{tournament.missing_responses})",
            "rating": f"Elo, K {method.k:g}, mean of {method.n_perms} orders, "
            f"evidence from {method.evidence_replicates} resamples",
            "seeds": f"shuffles {method.seed}, subset {params.seed}",
        }

    @property
    def _reasoning(self) -> str:
        """What becomes of reasoning in the responses; empty where there is none."""
        kept = sum(has_reasoning(r.response_text) for r in self.material.responses.values())
        if self.tournament.judge.reasoning == "strip":
            return "stripped from responses (judge.reasoning: strip)"
        return f"shown in {kept} responses (judge.reasoning: keep)" if kept else ""

    @property
    def _service(self) -> str:
        """Where the judge runs, and the cost limit."""
        if not isinstance(self.judge, PaidJudge):
            return "run locally, free"
        cap = f", at most ${self.params.max_cost_usd:g}" if self.spends else ""
        return f"at {self.judge.service.origin or 'its own service'}{cap}"

    def _repr_html_(self) -> str:
        """The facts, the pairs of each dimension, and the forecast."""
        parts = (
            tables.facts(self.facts, name="plan"),
            tournament_tables.pair_counts(self.pairing, self.prompts),
            tournament_tables.forecast(self.forecast),
        )
        return "".join(part.html for part in parts)

    def refuse_without_cap(self) -> None:
        """Raise when the judge spends and the parameters name no limit."""
        if self.spends and isinstance(self.judge, PaidJudge):
            refuse_without_cap([self.judge], self.params.max_cost_usd)

    def ask_options(self, run: str, say: Callable[[str], None]) -> AskOptions:
        """With which options this run asks its judge."""
        tries, budget = self.tournament.judge.max_tries, self.budget
        return AskOptions(run=run, prewarm=self.prewarms, max_tries=tries, budget=budget, say=say)

    @cached_property
    def budget(self) -> Budget | None:
        """What requests to the judge may cost, by tokens that its service counts; None where
        nothing can cost.
        """
        return self._budget(ask=not self.params.offline)

    def _budget(self, *, ask: bool) -> Budget | None:
        if not isinstance(self.judge, PaidJudge):
            return None
        settings = paid_settings(self.params.judge, self.tournament.judge)
        return Budget(
            judge=self.judge,
            ledger=self.ledger,
            estimator=Estimator.of(self.judge, self._fresh, ask=ask),
            expected_tokens=settings.expected_output_tokens,
            cap_usd=self.params.max_cost_usd,
        )


def prompts_text(plan: Plan) -> str:
    """How many prompts a plan takes of which strata, in words."""
    strata = ", ".join(f"{n} {name}" for name, n in plan.prompt_set()["strata"].items())
    return f"{len(plan.prompts)} of {len(plan.material.prompts)} ({strata})"


def material_of(
    bank: Sequence[Prompt],
    responses: Mapping[tuple[str, str], Response],
    rubrics: Mapping[str, Rubric],
    tournament: TournamentFile,
    root: Path,
) -> Material:
    """What requests are made of; refuses prompts with ids of canaries, whose verdicts must stay
    apart.
    """
    if names := [p.prompt_id for p in bank if p.prompt_id.startswith(PREFIX)]:
        raise DataError(f"prompt ids must not begin with {PREFIX}, as {names[0]!r} does")
    if tournament.judge.reasoning == "strip":
        shown = {cell: without_reasoning(each.response_text) for cell, each in responses.items()}
        responses = {c: replace(each, response_text=shown[c]) for c, each in responses.items()}
    return Material(
        prompts={p.prompt_id: p for p in bank},
        responses=responses,
        rubrics=rubrics,
        salt=Ledger(root / tournament.verdicts).salt(),
        graded=tournament.judge.graded,
    )


def _paired(
    params: RunParams,
    tournament: TournamentFile,
    prompts: Sequence[Prompt],
    material: Material,
    judge: Judge,
) -> Pairing:
    """The pairs of a run; refused where they are too many."""
    rubrics = material.rubrics.items()
    pairing = build_pairs(
        prompts,
        tournament.entrants,
        material.responses.keys(),
        {name: rubric.needs_gold for name, rubric in rubrics},
        missing=tournament.missing_responses,
        limit=params.limit_pairs,
        only=tournament.judge.only_entrant,
        barred=_barred(judge, tournament),
        prompts_of={name: material.reaching(r.turn) for name, r in rubrics if r.turn},
    )
    refuse_unseen(judge, sum(map(material.shows_images, pairing.pairs)), "pairs")
    if (n := len(pairing.pairs)) > MAX_PAIRS:
        raise DataError(
            f"this run would judge {n:,} pairs; at most {MAX_PAIRS:,} are judged at once: "
            "take fewer prompts with strata, fewer pairs with limit_pairs, or fewer dimensions"
        )
    return pairing


def _barred(judge: Judge, tournament: TournamentFile) -> frozenset[str]:
    """The entrants that the judge must not judge."""
    settings = tournament.judge
    if not settings.bar_own_family:
        return frozenset()
    if judge.model not in settings.families:
        raise DataError(
            f"judge.bar_own_family needs the family of the judge {judge.model!r} in judge.families,"
            f" which has: {', '.join(settings.families) or 'none'}"
        )
    return Families.around(judge.model, settings.families).barred


def read_plan(mode: str, /, **parameters: Any) -> Plan:
    """What a run of the notebook `mode` would ask, by these parameters; see `RunParams`.

    Parameters and files are checked. Nothing is sent but requests to count tokens, which are
    free, and only when the forecast is looked at; nothing is written.
    """
    return Plan.of(mode, resolve_parameters(mode, parameters))
