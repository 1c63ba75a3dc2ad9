"""A study: one tournament file, one run's parameters, one record. The notebooks' door."""

from __future__ import annotations

import atexit
import importlib.util
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_kit import artifacts
from arena_kit.battles import BattleLog, DataError
from arena_kit.judging.judges.base import Judge
from arena_kit.judging.judges.replay import ReplayJudge
from arena_kit.judging.ledger import Ledger
from arena_kit.judging.pairing import Pairing, build_pairs, select_subset
from arena_kit.judging.quality import PositionBias, position_bias
from arena_kit.judging.records import Judgment
from arena_kit.judging.tournament import Material, OfflineError, OnProgress, judge_pairs
from arena_kit.judging.verdicts import settlement_counts, status_counts, to_battles
from arena_kit.prompts import Prompt, Response
from arena_kit.rating.base import RatingError, Ratings
from arena_kit.rating.elo import PermutationElo, k_sweep
from arena_kit.rating.stability import Stability, neighbour_stability
from arena_kit.reporting.pictures import Picture, save_picture
from arena_kit.runs import Record, find_root, runs_folder
from arena_kit.settings import (
    RunParams,
    TournamentFile,
    baseline_judge,
    read_tournament,
    validated,
)
from arena_kit.store import (
    file_hash,
    read_prompts,
    read_responses,
    read_text,
    responses_file,
    whole_file,
    write_jsonl,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Study:
    """A judged tournament from prompts to a record; each step is computed once.

    Open one with `Study.open`, which validates everything and claims a record, then ask
    for `judgments`, `battles`, `ratings`, `sweep`, and `save()` the artifacts.
    """

    mode: str
    root: Path
    params: RunParams
    tournament: TournamentFile
    bank: list[Prompt] = field(repr=False)
    prompts: list[Prompt] = field(repr=False)
    responses: dict[tuple[str, str], Response] = field(repr=False)
    pairing: Pairing = field(repr=False)
    material: Material = field(repr=False)
    judge: Judge
    record: Record

    @classmethod
    def open(cls, mode: str, **parameters: Any) -> Study:
        """Validate parameters and inputs, then claim a record and write its first manifest."""
        params = validated(RunParams, parameters, f"parameters of {mode}")
        root = find_root()
        tournament = params.applied(read_tournament(root / params.tournament))
        bank = read_prompts(root / tournament.prompts)
        prompts = select_subset(bank, params.strata, params.subset_seed) if params.strata else bank
        responses = read_responses(
            root / tournament.responses, tournament.entrants, [p.prompt_id for p in bank]
        )
        rubrics = tournament.rubrics(root)
        pairing = build_pairs(
            prompts,
            tournament.entrants,
            responses.keys(),
            {name: rubric.needs_gold for name, rubric in rubrics.items()},
            missing=tournament.missing_responses,
            limit=params.limit_pairs,
        )
        study = cls(
            mode=mode,
            root=root,
            params=params,
            tournament=tournament,
            bank=bank,
            prompts=prompts,
            responses=responses,
            pairing=pairing,
            material=Material(
                prompts={p.prompt_id: p for p in bank},
                responses=responses,
                rubrics=rubrics,
                salt=_salt(root),
            ),
            judge=_judge(mode, params, tournament, root),
            record=_record(mode, params, root),
        )
        study._begin()
        return study

    @property
    def dimensions(self) -> list[str]:
        return list(self.tournament.dimensions)

    @property
    def method(self) -> PermutationElo:
        """The rating method of the tournament file with this run's overrides."""
        return self.tournament.elo.method()

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.root / self.tournament.verdicts)

    @cached_property
    def judgments(self) -> list[Judgment]:
        """Every pair judged in both orders and settled."""
        with self._failing(), _progress(hidden=self.record.attached) as show:
            found = judge_pairs(
                self.pairing.pairs,
                self.material,
                self.judge,
                self.ledger,
                offline=self.params.offline and self.params.judge != "replay",
                max_attempts=self.tournament.judge.max_attempts,
                on_progress=show,
            )
            artifacts.write_verdicts(self.record.path, found, self.dimensions)
            self.record.update(
                counts=self._counts(found), cost=_cost(found), position_bias=_bias(found)
            )
        return found

    @cached_property
    def battles(self) -> BattleLog:
        return to_battles(self.judgments)

    @cached_property
    def bias(self) -> dict[str, PositionBias]:
        return position_bias(self.judgments)

    @cached_property
    def _rated(self) -> tuple[dict[str, dict[float, Ratings]], dict[str, str]]:
        """Ratings at every K of the sweep and at the default one, all from one replay."""
        ks = sorted({*map(float, self.tournament.elo.k_sweep), self.method.k})
        logs = self.battles.by_dimension() if len(self.battles) else {}
        rated, unrated = {}, {}
        for dimension in self.dimensions:
            log = logs.get(dimension, self.battles.select([]))
            try:
                rated[dimension] = k_sweep(self.method, log, ks)
            except RatingError as error:
                unrated[dimension] = str(error)
            else:
                if absent := sorted({*self.tournament.entrants} - {*log.models}):
                    unrated[dimension] = f"{', '.join(absent)} (no battle)"
        return rated, unrated

    @property
    def ratings(self) -> dict[str, Ratings]:
        """Ratings per dimension; what does not exist is in `unrated`, with the reason."""
        return {dimension: by_k[self.method.k] for dimension, by_k in self._rated[0].items()}

    @property
    def sweep(self) -> dict[str, dict[float, Ratings]]:
        """Ratings per dimension at every K of the sweep, and at the default K."""
        return self._rated[0]

    @property
    def unrated(self) -> dict[str, str]:
        """Per dimension, what has no rating and why: the dimension, or some entrants."""
        return self._rated[1]

    @cached_property
    def winrates(self) -> list[dict[str, Any]]:
        """Wins, ties and inconsistent judgments of every pair and dimension."""
        rows = artifacts.pairwise_winrates(self.battles)
        return sorted(rows, key=lambda row: self.dimensions.index(row["dimension"]))

    @cached_property
    def stability(self) -> dict[str, list[Stability]]:
        """How neighbours of each ranking fare across the sweep."""
        logs = self.battles.by_dimension()
        return {
            dimension: neighbour_stability(
                by_k, self.method.k, method=self.method, battles=logs[dimension]
            )
            for dimension, by_k in self.sweep.items()
        }

    def facts(self) -> dict[str, str]:
        """What is judged by whom, in words."""
        rubrics = ", ".join(f"{r.dimension} v{r.version}" for r in self.material.rubrics.values())
        strata = ", ".join(f"{n} {name}" for name, n in self._prompt_set()["strata"].items())
        n_pairs = len(self.pairing.pairs)
        lexical = self.judge.model.startswith("baseline/")
        return {
            "tournament": self.tournament.name,
            "judge": self.judge.model + (" (compares words, reads no rubric)" if lexical else ""),
            "entrants": ", ".join(sorted(self.tournament.entrants)),
            "prompts": f"{len(self.prompts)} of {len(self.bank)} ({strata})",
            "rubrics": rubrics,
            "requests": f"{2 * n_pairs} ({n_pairs} pairs in both orders)",
            "missing responses": f"{len(self.pairing.missing)}, treated "
            f"{self.tournament.missing_responses}",
            "rating": f"Elo, K {self.method.k:g}, mean of {self.method.n_perms} orders, "
            f"evidence from {self.method.evidence_replicates} resamples",
            "seeds": f"shuffles {self.method.seed}, subset {self.params.subset_seed}",
        }

    def show(self, name: str, figure: Figure, alt: str) -> Picture:
        """Save a figure in the record and return it for display."""
        return save_picture(figure, self.record.path / "figures" / f"{name}.png", alt)

    def save(self) -> Record:
        """Write the result artifacts and, unless a runner does it, close the record."""
        with self._failing():
            artifacts.write_results(
                self.record.path,
                self.battles,
                self.ratings,
                self.sweep,
                dimensions=self.dimensions,
                default_k=self.method.k,
            )
            self.record.update(unrated=self.unrated)
        if not self.record.attached:
            self.record.finish()
        return self.record

    def _begin(self) -> None:
        if not self.record.attached:
            self.record.start(self.mode, self.params.model_dump(mode="json"))
            atexit.register(_abandon, self.record)
        elo = self.tournament.elo
        folder = self.root / self.tournament.responses
        self.record.update(
            tournament=self.tournament.model_dump(mode="json"),
            judge={"model": self.judge.model, "settings": dict(self.judge.settings)},
            entrants=sorted(self.tournament.entrants),
            dimensions=self.dimensions,
            prompt_set=self._prompt_set(),
            responses={e: file_hash(responses_file(folder, e)) for e in self.tournament.entrants},
            rubrics={
                name: {"version": rubric.version, "sha256": rubric.digest}
                for name, rubric in self.material.rubrics.items()
            },
            seeds={"shuffle": elo.shuffle_seed, "subset": self.params.subset_seed},
            rating={"method": "permutation-elo", "settings": _settings(self.method)},
            dropped={
                "missing_responses": [list(cell) for cell in self.pairing.missing],
                "prompts": list(self.pairing.dropped_prompts),
                "pairs": self.pairing.dropped_pairs,
            },
        )
        artifacts.write_pairs(self.record.path, self.pairing.pairs)

    def _prompt_set(self) -> dict[str, Any]:
        strata: dict[str, int] = {}
        for prompt in self.prompts:
            strata[prompt.source] = strata.get(prompt.source, 0) + 1
        return {
            "file": str(self.tournament.prompts),
            "sha256": file_hash(self.root / self.tournament.prompts),
            "bank": len(self.bank),
            "selected": len(self.prompts),
            "strata": strata,
        }

    def _counts(self, judgments: list[Judgment]) -> dict[str, Any]:
        return {
            "pairs": self.pairing.counts(),
            "verdicts": status_counts(judgments),
            "judgments": settlement_counts(judgments),
        }

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Close the record as failed when the block fails, unless a runner will."""
        try:
            yield
        except BaseException as error:
            if isinstance(error, OfflineError):
                missing = ({"request_id": request_id} for request_id in error.missing)
                write_jsonl(self.record.path / "missing.jsonl", missing)
            if not self.record.attached:
                self.record.finish(error=f"{type(error).__name__}: {error}")
            raise


def _judge(mode: str, params: RunParams, tournament: TournamentFile, root: Path) -> Judge:
    models = tournament.judge
    model = params.judge_model or (models.pilot_model if mode == "pilot" else models.headline_model)
    if params.judge == "replay":
        if not params.replay_from:
            raise DataError("judge 'replay' needs replay_from, a record or a verdicts file")
        judge = ReplayJudge.from_record(root / params.replay_from)
        if params.judge_model not in ("", judge.model):
            raise DataError(f"the recording is by {judge.model!r}, not {params.judge_model!r}")
        return judge
    baseline = baseline_judge(models.baseline)
    if model != baseline.model:
        raise DataError(f"judge 'baseline' is the model {baseline.model!r}, not {model!r}")
    return baseline


def _record(mode: str, params: RunParams, root: Path) -> Record:
    if params.run_dir:
        return Record.claim(root / params.run_dir)
    return Record.create(runs_folder(root), mode)


def _abandon(record: Record) -> None:
    """Close a record whose session ends before it was saved."""
    if record.path.is_dir() and record.read().get("status") == "running":
        record.finish(error="the session ended before the record was saved")


def _settings(method: PermutationElo) -> dict[str, Any]:
    return {name: getattr(method, name) for name in method.__dataclass_fields__}


def _salt(root: Path) -> bytes:
    """The workspace's secret behind the boundaries, made at first use."""
    path = root / ".arena_kit" / "salt"
    if not path.exists():
        with suppress(FileExistsError), whole_file(path.with_name(".salt.new")) as part:
            part.write_text(secrets.token_hex(32), encoding="utf-8")
            path.hardlink_to(part)  # the first of several processes wins
    try:
        salt = bytes.fromhex(read_text(path))
    except ValueError:
        salt = b""
    if len(salt) != 32:
        raise DataError(f"{path}: not a salt of 32 bytes; delete it to make a new one")
    return salt


def _cost(judgments: list[Judgment]) -> dict[str, float]:
    verdicts = [v for j in judgments for v in (j.forward, j.backward)]
    return {
        "usd_spent": sum(v.cost_usd for v in verdicts if not v.cached),
        "usd_saved_by_cache": sum(v.cost_usd for v in verdicts if v.cached),
    }


def _bias(judgments: list[Judgment]) -> dict[str, Any]:
    return {name: found.as_dict() for name, found in position_bias(judgments).items()}


@contextmanager
def _progress(*, hidden: bool) -> Iterator[OnProgress]:
    """A bar for interactive use; headless records would keep it frozen at 0 %."""
    if hidden:
        yield lambda _done, _total: None
        return
    plain = importlib.util.find_spec("ipywidgets") is None  # tqdm.auto would warn about it
    bars = importlib.import_module("tqdm.std" if plain else "tqdm.auto")
    with bars.tqdm(desc="verdicts", unit="verdict") as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield show
