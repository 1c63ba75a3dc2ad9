"""What several tests share: folders, texts, pairs, votes and small builders of them."""

from __future__ import annotations

import ast
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path
from typing import Any

import anthropic
import duckdb
import nbformat
import numpy as np
import pytest
import yaml
from click.testing import CliRunner, Result
from IPython.core.formatters import DisplayFormatter

from arena_kit import (
    Battle,
    BattleLog,
    Board,
    BradleyTerry,
    Judgments,
    Outcome,
    Placement,
    Plan,
    Rating,
    Ratings,
    Rounds,
    Source,
    judge,
    judge_placement,
    place,
    publish,
    publish_placement,
    rate,
    read_placement,
    read_plan,
    to_battles,
)
from arena_kit.battles.log import Labels
from arena_kit.battles.read import read_battles
from arena_kit.cli.main import main
from arena_kit.judging.asking.judge_pairs import Material
from arena_kit.judging.asking.options import AskOptions, Backoff
from arena_kit.judging.judges.anthropic import AnthropicBatches
from arena_kit.judging.judges.base import Price
from arena_kit.judging.pairs.prompts import Pair, Prompt, Response, responses_file
from arena_kit.judging.quality.canaries import canary_pairs
from arena_kit.judging.verdicts.records import (
    Answer,
    JudgeRequest,
    Judgment,
    Settlement,
    Slot,
    Status,
    Verdict,
)
from arena_kit.judging.verdicts.rendering import Rubric
from arena_kit.judging.verdicts.settle import presentations, settle
from arena_kit.reporting.html import export_report
from arena_kit.runs.placement.place import PlacedModel
from arena_kit.runs.record.record import Record
from arena_kit.runs.settings.files import PlacementSettings
from arena_kit.runs.settings.parameters import parameters_of
from tests.emulator import Emulator

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "sample"
CASES = ROOT / "tests" / "cases"

# HTML

HOSTILE = [
    "<script>document.title='PWNED'</script>",
    "<img src=x onerror=\"document.title='PWNED'\">",
    "<svg onload=\"document.title='PWNED'\"></svg>",
    "<iframe srcdoc=\"<script>parent.document.title='PWNED'</script>\"></iframe>",
    "<a href=\"javascript:document.title='PWNED'\">x</a>",
    "<style>body{display:none}</style>",
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>",
    "<img src=http://127.0.0.1:9/beacon.png>",
    '<div style="background:url(http://127.0.0.1:9/b.png)">x</div>',
    "<form action=http://127.0.0.1:9/><input name=x></form>",
]


class Elements(HTMLParser):
    """Collects what a browser would act on: tags and attributes, not text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


# The command line, and what it writes


def call(*words: object) -> Result:
    """The command line in this process, where all that it imports is there already."""
    return CliRunner().invoke(main, [str(word) for word in words])


def jsonl(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def loaded(path: Path) -> Any:
    """The content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


# An installation of somebody else's


def newcomers_environment() -> dict[str, str]:
    """The environment of a newcomer: nothing of the process that tests."""
    ours = ("ARENA_KIT", "PYTHON", "JUPYTER", "JPY", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def newcomer(*words: str | Path, cwd: Path | None = None) -> str:
    """What a command prints that a newcomer runs, which must end well."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=1200,
        env=newcomers_environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# A judged tournament of three entrants

ENTRANTS = ["ash", "beech", "cherry"]
PROMPTS = ["q1", "q2"]
PAIRS = [
    Pair(dimension="tone", prompt_id=prompt_id, entrant_a=a, entrant_b=b)
    for prompt_id in PROMPTS
    for a, b in combinations(ENTRANTS, 2)
]
MATERIAL = Material(
    prompts={p: Prompt(prompt_id=p, text=f"Question {p}?", source="plain") for p in PROMPTS},
    responses={
        (e, p): Response(entrant_id=e, prompt_id=p, response_text=f"{len(e)} words on {p}.")
        for e in ENTRANTS
        for p in PROMPTS
    },
    rubrics={"tone": Rubric(dimension="tone", version="1", text="Prefer the calmer one.")},
    salt=b"salt",
)


def statuses(judgments: list[Judgment]) -> list[Status]:
    return [v.status for j in judgments for v in (j.forward, j.backward)]


def settled(
    *said: tuple[Slot | Status, Slot | Status], dimension: str = "tone", questions: int = 0
) -> list[Judgment]:
    """One judgment of ash and beech for each two answers, forward and backward, on a prompt of its
    own, or with as many prompts as are asked for, in turn.
    """
    found = []
    for i, answers in enumerate(said):
        prompt = f"q{i % questions if questions else i}"
        pair = Pair(dimension=dimension, prompt_id=prompt, entrant_a="ash", entrant_b="beech")
        forward, backward = (
            Verdict(
                presentation=shown,
                status=answer if isinstance(answer, Status) else Status.OK,
                winner=answer if isinstance(answer, Slot) else None,
            )
            for shown, answer in zip(presentations(pair), answers, strict=True)
        )
        found.append(settle(forward, backward))
    return found


def outcomes(judgments: list[Judgment]) -> list[tuple[Pair, Settlement, str | None]]:
    return [(j.pair, j.settlement, j.winner) for j in judgments]


# A ledger that may only be read

READ_ONLY_FILE, READ_ONLY_FOLDER = 0o444, 0o555


def write_protect(folder: Path) -> None:
    """Take write permission from a folder and all files in it."""
    for path in folder.iterdir():
        path.chmod(READ_ONLY_FILE)
    folder.chmod(READ_ONLY_FOLDER)


def run_unprivileged(code: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Python code in a process that permission bits bind, also when root runs the tests."""
    command = [sys.executable, "-c", code, *words]
    if os.geteuid() == 0:
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            pytest.skip("root is bound by no permission bits, and there is no setpriv")
        command = [setpriv, "--bounding-set=-dac_override", *command]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


# Claude at the emulated service

KEY = "sk-ant-emulated-0123456789"
BACKOFF = Backoff(first_wait=0.01, longest_wait=0.05, grace=0.2, patience=5)
#: US dollars per million tokens, as the service's documents list them.
OPUS = Price(
    model="claude-opus-5-5", input=4, output=20, write=8, write_5m=5, read=0.2, batch_factor=0.5
)
OLD = Price(
    model="claude-sonnet-4-5", input=3, output=15, write=6, write_5m=3.75, read=0.3,
    batch_factor=0.5,
)  # fmt: skip
#: Rubrics that are long enough to be cached: 512 tokens of 3.2 bytes are 1,639 bytes.
LONG = {
    name: Rubric(dimension=name, version="1", text=f"Prefer the response with more {name}. " * 60)
    for name in ("rigour", "tone")
}
TWO_RUBRICS = replace(MATERIAL, rubrics=LONG)
TWO_DIMENSIONS = [*PAIRS, *(replace(pair, dimension="rigour") for pair in PAIRS)]


def client_of(emulator: Emulator, key: str = KEY, timeout: float = 10.0) -> anthropic.Anthropic:
    """The real SDK; nothing is verified, for nothing is encrypted."""
    transport = anthropic.DefaultHttpxClient(verify=False, timeout=timeout)
    return anthropic.Anthropic(
        api_key=key, base_url=emulator.base_url, timeout=timeout, http_client=transport
    )


#: How Claude is asked where a test does not say otherwise.
CLAUDE: dict[str, Any] = {"max_tokens": 4096, "effort": ""}


def batch_judge(emulator: Emulator, key: str = KEY, **changes: Any) -> AnthropicBatches:
    shared = {"model": OPUS.model, "price": OPUS, "client": client_of(emulator, key)}
    return AnthropicBatches(**(shared | CLAUDE | changes))


def options(**changes: Any) -> AskOptions:
    shared: dict[str, Any] = {"run": "first", "backoff": BACKOFF}
    return AskOptions(**(shared | changes))


def sizes(emulator: Emulator) -> list[int]:
    """How many requests each batch at the service has, oldest first."""
    return [len(batch["custom_ids"]) for batch in emulator.batches]  # type: ignore[arg-type]


def verdict(winner: str) -> str:
    return json.dumps({"justification": "It is.", "winner": winner})


# Canaries known by heart

SHIPPED = ("factuality", "calibration", "clinical_utility")


def rubrics_of(*dimensions: str) -> dict[str, Rubric]:
    return {d: Rubric(dimension=d, version="1", text=f"Prefer more {d}.") for d in dimensions}


@cache
def _key(dimension: str) -> tuple[frozenset[str], frozenset[str]]:
    """Answers that are the better ones on a dimension, and those that are as good as the other."""
    canaries = canary_pairs(rubrics_of(*SHIPPED), salt=b"", suite="full").canaries
    own = [canary for canary in canaries if canary.dimension == dimension]
    better = frozenset(canary.better for canary in own if not canary.alike)
    return better, frozenset(canary.better for canary in own if canary.alike)


def by_heart(dimension: str, first: str, second: str) -> str:
    """The right verdict on a canary, by the answers' texts; on others by the alphabet."""
    better, alike = _key(dimension)
    if {first, second} & alike or first == second:
        return "tie"
    if {first, second} & better:
        return "A" if first in better else "B"
    return "A" if first < second else "B"


def by_heart_whatever_is_asked(first: str, second: str) -> str:
    """The right verdict on the first dimension on which one answer is the better one."""
    knows = (d for d in SHIPPED if {first, second} & _key(d)[0])
    return by_heart(next(knows, SHIPPED[0]), first, second)


# Votes and verdicts for ratings

NEW = "new"
Row = tuple[str, str, str]


def log_of(rows: Iterable[Row], questions: str = "q", source: Source = Source.HUMAN) -> BattleLog:
    """Battles (model_a, model_b, winner), each on a question of its own."""
    return BattleLog.from_battles(
        Battle(model_a=a, model_b=b, winner=w, question_id=f"{questions}{n}", source=source)  # type: ignore[arg-type]
        for n, (a, b, w) in enumerate(rows)
    )


def judged(rows: Iterable[Row], questions: str = "j") -> BattleLog:
    return log_of(rows, questions, Source.LLM_JUDGE)


def won(first: str, second: str, wins: int, losses: int, ties: int = 0) -> list[Row]:
    """So many wins, losses and ties of the first against the second."""
    kinds = [("model_a", wins), ("model_b", losses), ("tie", ties)]
    return [(first, second, kind) for kind, n in kinds for _ in range(n)]


def drawn(
    rng: np.random.Generator,
    skill: Mapping[str, float],
    pairs: Sequence[tuple[str, str]],
    n: int,
    questions: str = "q",
    source: Source = Source.HUMAN,
) -> BattleLog:
    """`n` battles of random pairs, decided by skills in rating points, a question each."""
    names = sorted(skill)
    sides = np.array([[names.index(x) for x in pair] for pair in pairs], np.int32)
    sides = sides[rng.integers(0, len(pairs), n)]
    strength = np.array([skill[name] for name in names])
    chance = 1 / (1 + 10 ** ((strength[sides[:, 1]] - strength[sides[:, 0]]) / 400))
    whole = BattleLog(
        models=tuple(names),
        a=sides[:, 0],
        b=sides[:, 1],
        outcome=(rng.random(n) > chance).astype(np.int8),
        question_id=Labels.of([f"{questions}{i:06d}" for i in range(n)]),
    )
    return whole.of_source(source).select(np.ones(n, bool))


def all_pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    return [(a, b) for i, a in enumerate(names) for b in names[:i]]


def sparse(seed: int, n: int = 40, battles: int = 3000) -> tuple[list[Battle], list[float]]:
    """About four battles a pair between models of known skill, and these ratings."""
    rng = np.random.default_rng(seed)
    skill = rng.normal(0, 1.2, n)
    a = rng.integers(0, n, battles)
    b = (a + rng.integers(1, n, battles)) % n
    won = rng.random(battles) < 1 / (1 + np.exp(skill[b] - skill[a]))
    rows = [
        Battle(
            model_a=f"m{i:02}", model_b=f"m{j:02}", winner=Outcome("model_a" if w else "model_b")
        )
        for i, j, w in zip(a, b, won, strict=True)
    ]
    return rows, (1000 + 400 / math.log(10) * (skill - skill.mean())).tolist()


def shared_log(
    a: np.ndarray, b: np.ndarray, outcome: np.ndarray, names: Sequence[str], source: Source
) -> BattleLog:
    """Battle k is on question k: two such logs share their battles."""
    return BattleLog(
        models=tuple(names),
        a=a.astype(np.int32),
        b=b.astype(np.int32),
        outcome=outcome.astype(np.int8),
        question_id=Labels.of([f"q{k:06d}" for k in range(len(a))]),
    ).of_source(source)


def asked(
    n: int = 3000, models: int = 6, questions: int = 400, voters: int = 0, seed: int = 0
) -> BattleLog:
    """Battles with ties and both-bad votes on questions that several share, and voters if asked."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, models, n)
    b = (a + rng.integers(1, models, n)) % models
    outcome = np.where(
        rng.random(n) < 0.2, rng.integers(2, 4, n), rng.random(n) < 0.5 - (b - a) / 9
    )
    names = [f"m{i:02}" for i in range(models)]
    log = shared_log(a, b, outcome.astype(int), names, Source.HUMAN)
    on = Labels.of([f"q{k:05}" for k in rng.integers(0, questions, n)])
    by = Labels.of([f"v{k:05}" for k in rng.integers(0, voters, n)]) if voters else None
    return replace(log, question_id=on, voter=by)


def expanded(data: Path, target: Path) -> Path:
    """The 1.67 million votes of which pairs were counted, a row each, five to a question."""
    counts = read_battles(data / "chatbot_arena_1m7_counts" / "pair_counts.csv.gz").columns()
    with duckdb.connect() as con:
        con.register("counts", {n: counts[n] for n in ("model_a", "model_b", "winner", "weight")})
        rows = "SELECT * FROM counts, range(weight::BIGINT) AS vote(number)"
        numbered = f"SELECT *, row_number() OVER () AS n FROM ({rows})"
        question = "'q' || (hash(n) % 330000) AS question_id"
        con.execute(
            f"COPY (SELECT model_a, model_b, winner, {question} FROM ({numbered})) "
            f"TO '{target}' (FORMAT parquet)"
        )
    return target


class World:
    """Models with planted skills, people who vote by them, and room for judges."""

    def __init__(self, skill: Sequence[float], n: int, seed: int = 0, ties: float = 0.0) -> None:
        self.rng = np.random.default_rng(seed)
        self.skill = np.asarray(skill, float)
        self.names = [f"m{i:02d}" for i in range(len(skill) - 1)] + [NEW]
        self.a = self.rng.integers(0, len(skill), n)
        self.b = (self.a + self.rng.integers(1, len(skill), n)) % len(skill)
        self.luck = self.rng.random(n)
        self.tied = self.rng.random(n) < ties
        self.human = self.log(self.votes(self.skill, self.luck), Source.HUMAN)

    def votes(self, skill: np.ndarray, luck: np.ndarray) -> np.ndarray:
        chance = 1 / (1 + 10 ** ((skill[self.b] - skill[self.a]) / 400))
        return np.where(self.tied, 2, luck > chance)

    def log(self, outcome: np.ndarray, source: Source = Source.LLM_JUDGE) -> BattleLog:
        return shared_log(self.a, self.b, outcome, self.names, source)

    def judged(self, skill: np.ndarray) -> BattleLog:
        """A judge with luck and skills of its own."""
        return self.log(self.votes(skill, self.rng.random(len(self.a))))

    def sure(self) -> BattleLog:
        """A judge that always names the better model."""
        return self.log(self.skill[self.b] > self.skill[self.a])

    def placed_error(self, judged: BattleLog, *, soft: bool) -> float:
        """How far from its planted rating (on the arena's scale) the model is put."""
        found = Placement(model=NEW, min_battles=0, soft=soft, method=BradleyTerry())(
            self.human, judged
        )
        return found.joint[NEW].rating - (1000 + self.skill[-1] - self.skill[:-1].mean())


def steps(n: int, gap: float) -> list[float]:
    return [gap * (i - (n - 1) / 2) for i in range(n)]


# Votes on prompts for the policy


def votes_on(*rows: tuple[str, str, str, str]) -> BattleLog:
    """Battles from (model_a, model_b, winner, prompt); winner `-` is a tie, `!` both-bad."""
    outcome = {"a": "model_a", "b": "model_b", "-": "tie", "!": "both_bad"}
    return BattleLog.from_battles(
        Battle(model_a=a, model_b=b, winner=outcome[w], question_id=q, battle_id=f"v{n:05}")  # type: ignore[arg-type]
        for n, (a, b, w, q) in enumerate(rows)
    )


def season(n: int = 3000, models: int = 6, seed: int = 0) -> BattleLog:
    """Random votes of models whose skill falls with their number, on 12 prompts."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        i, j = rng.choice(models, 2, replace=False).tolist()
        p = 1 / (1 + 10 ** ((i - j) * 60 / 400))
        won = rng.choice(["a", "b", "-", "!"], p=[0.8 * p, 0.8 * (1 - p), 0.15, 0.05])
        rows.append((f"m{i}", f"m{j}", str(won), f"q{rng.integers(12):02}"))
    return votes_on(*rows)


def rated_by_hand(
    ratings: dict[str, float], se: float | dict[str, float] = 10.0, *, df: float | None = None
) -> Ratings:
    """Independent ratings with these standard errors; NaN marks a model without an interval."""
    models = tuple(sorted(ratings))
    errors = se if isinstance(se, dict) else dict.fromkeys(models, se)
    rows = [
        Rating(
            model=model,
            rating=value,
            ci_low=None if math.isnan(errors[model]) else value - 2 * errors[model],
            ci_high=None if math.isnan(errors[model]) else value + 2 * errors[model],
            n_battles=1000,
            extra={"df": df},
        )
        for model, value in ratings.items()
    ]
    return Ratings(
        method="by hand",
        settings={},
        ratings=tuple(sorted(rows, key=lambda row: -row.rating)),
        n_battles=1000,
        dropped={},
        models=models,
        traces=np.empty((0, len(models))),
        replicates=np.empty((0, len(models))),
        covariance=np.diag([errors[model] ** 2 for model in models]),
    )


def timed(votes: BattleLog, days: float = 21.0) -> BattleLog:
    """The same votes, evenly over so many days from a Monday."""
    step = np.timedelta64(int(days * 86_400e6 / len(votes)), "us")
    start = np.datetime64("2026-09-07T00:00:00", "us")
    return replace(votes, timestamp=start + step * np.arange(len(votes)))


# Runs

SMALL: dict[str, Any] = {
    "strata": {"open_recall": 4, "vignette": 4, "curated": 4},
    "overrides": {"elo.n_perms": 20},
}


def parameters(mode: str, **given: Any) -> dict[str, Any]:
    """Parameters of a notebook; what is none of its own is a setting of its tournament file."""
    own = {name: value for name, value in given.items() if name in parameters_of(mode).model_fields}
    section = {"n_perms": "elo", "margin": "report", "inputs": "report"}
    section |= dict.fromkeys(PlacementSettings.model_fields, "placement")
    more = {f"{section.get(n, 'judge')}.{n}": v for n, v in given.items() if n not in own}
    return own | {"overrides": own.get("overrides", {}) | more}


def plan_of(mode: str = "pilot", **given: Any) -> Plan:
    """The plan of a notebook by `parameters`."""
    return read_plan(mode, **parameters(mode, **given))


def judgments_of(mode: str = "pilot", **given: Any) -> Judgments:
    """All that the judge of a notebook's plan says; an adaptive one in rounds."""
    plan = plan_of(mode, **given)
    return in_rounds(plan)[1] if mode == "adaptive" else judge(plan)


def in_rounds(plan: Plan) -> tuple[Rounds, Judgments]:
    """The loop of the adaptive notebook."""
    rounds = Rounds.of(plan)
    judgments = judge(plan, pairs=rounds.pairs)
    while (rounds := rounds.after(judgments)).pairs:
        judgments = judge(plan, pairs=rounds.pairs, earlier=judgments)
    return rounds, judgments


def record_of(mode: str = "pilot", **given: Any) -> Record:
    """The record that the steps of a notebook leave."""
    return published(judgments_of(mode, **given))


def published(judgments: Judgments, **more: Any) -> Record:
    """The record of these judgments, rated and published."""
    return publish(rated(judgments), judgments, **more)


def placed_model(**given: Any) -> PlacedModel:
    """A model placed by `parameters` of the notebook."""
    return place(judge_placement(read_placement(**parameters("placement", **given))))


def placement_record(**given: Any) -> Record:
    """The record that the steps of a placement leave."""
    return publish_placement(placed_model(**given))


def rated(judgments: Judgments) -> Board:
    """The board of these judgments."""
    return rate(to_battles(judgments), **judgments.plan.rating)


TOURNAMENT_ARTIFACTS = {
    "manifest.json",
    "matches/matches.jsonl",
    "verdicts/factuality.jsonl",
    "verdicts/calibration.jsonl",
    "verdicts/clinical_utility.jsonl",
    "battles.jsonl",
    "elo_results.json",
    "elo_per_perm.npz",
    "pairwise_winrates.csv",
}


def copy_workspace(root: Path) -> Path:
    """A workspace of its own with what is shipped, but little to resample."""
    for part in ("notebooks", "params", "sample"):
        shutil.copytree(ROOT / part, root / part)
    tournament = root / "params" / "tournament.yaml"
    text = tournament.read_text(encoding="utf-8")
    tournament.write_text(text.replace("evidence_replicates: 500", "evidence_replicates: 20"))
    return root


def edited(workspace: Path, **changes: Any) -> Path:
    """The shipped tournament file with dotted keys replaced (None removes)."""
    path = workspace / "params" / "tournament.yaml"
    values = yaml.safe_load(path.read_text())
    for dotted, value in changes.items():
        *parents, last = dotted.split("__")
        inner = values
        for parent in parents:
            inner = inner[parent]
        if value is None:
            del inner[last]
        else:
            inner[last] = value
    path.write_text(yaml.safe_dump(values))
    return path


STEPS = """
judgments = ak.judge(plan)
board = ak.rate(ak.to_battles(judgments), **plan.rating)
record = ak.publish(board, judgments)
"""


def without_report(workspace: Path, notebook: str = "pilot", shown: str = "") -> None:
    """Leave nothing in a notebook but its parameters, its study, its record and an expression to be
    shown, where a test is not about the rest: tables and pictures are half of a kernel's time.
    """
    path = workspace / "notebooks" / f"{notebook}.ipynb"
    node = nbformat.read(path, as_version=4)
    plan = next(cell for cell in node.cells if "read_plan(" in cell.source)
    node.cells = [c for c in node.cells if "parameters" in c.metadata.get("tags", [])]
    node.cells.append(plan)
    node.cells.append(nbformat.v4.new_code_cell(f"{STEPS}\n{shown}"))
    nbformat.write(node, path)


Script = Callable[[JudgeRequest], str | Status | None]


@dataclass(slots=True)
class ScriptedJudge:
    """A judge that answers with whatever `script` returns for a request.

    A string is the raw text of an answer, a `Status` an answer that failed that way, and
    None no answer at all. `asked` lists the ids of every request, in order.
    """

    script: Script
    model: str = "scripted/v1"
    settings: Mapping[str, object] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def answer(self, request: JudgeRequest) -> Answer | None:
        self.asked.append(request.request_id)
        reply = self.script(request)
        if reply is None:
            return None
        return Answer(
            request_id=request.request_id,
            status=reply if isinstance(reply, Status) else Status.OK,
            text="" if isinstance(reply, Status) else reply,
            served_model=self.model,
        )


# Reports


def report_of(notebook: str, root: Path, **parameters: Any) -> Path:
    """The report of a notebook whose cells run in this process, which spares a kernel."""
    node = nbformat.read(root / "notebooks" / f"{notebook}.ipynb", as_version=4)
    folder: Path = run_cells(node, **parameters)["record"].path
    nbformat.write(node, folder / "report.ipynb")
    export_report(folder / "report.ipynb", folder / "report.html")
    return folder / "report.html"


def run_cells(node: nbformat.NotebookNode, **parameters: Any) -> dict[str, Any]:
    """Run the cells of a notebook here, which then has what they show; returns all its names."""
    shown: list[Any] = []
    names: dict[str, Any] = {"display": lambda *values: shown.extend(values)}
    for cell in node.cells:
        if cell.cell_type != "code" or "remove_cell" in cell.metadata.get("tags", []):
            continue
        shown.clear()
        value = _ran(cell.source, names)
        if "parameters" in cell.metadata.get("tags", []):
            names |= parameters
        values = [*shown, *([] if value is None else [value])]
        both = [DisplayFormatter().format(each) for each in values]
        cell.outputs = [
            nbformat.v4.new_output("display_data", data, metadata=metadata)
            for data, metadata in both
        ]
    return names


def _ran(source: str, names: dict[str, Any]) -> Any:
    """What the last expression of some code is, as a notebook shows it."""
    *body, last = ast.parse(source).body
    exec(compile(ast.Module([*body], []), "cell", "exec"), names)
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    exec(compile(ast.Module([last], []), "cell", "exec"), names)
    return None


def crowd(root: Path, entrants: Sequence[str], dimensions: Sequence[str], prompts: int) -> None:
    """Make the workspace's tournament one of these entrants, each with responses of its own
    quality: a share of the gold answer's words.
    """
    bank = [json.loads(line) for line in (SAMPLE / "prompts.jsonl").read_text().splitlines()]
    bank = [row for row in bank if row.get("gold_answer")][:prompts]
    (root / "sample" / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in bank))
    rng = np.random.default_rng(0)
    for n, entrant in enumerate(entrants):
        rows = []
        for row in bank:
            words = row["gold_answer"].split()
            kept = [w for w in words if rng.random() < 0.35 + 0.6 * n / len(entrants)]
            text = " ".join(kept or words[:1])
            rows.append({"entrant_id": entrant, "prompt_id": row["prompt_id"],
                         "response_text": text})  # fmt: skip
        file = responses_file(root / "sample" / "responses", entrant)
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    rubric = {"rubric": "params/rubrics/factuality.md", "version": "2", "reference": "gold_answer"}
    edited(root, entrants=[*entrants], dimensions=dict.fromkeys(dimensions, rubric))
