"""`rate --verdicts`: people's votes and a judge's verdicts on one board, and what is refused."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from arena_kit import BattleLog, read_battles, write_battles
from arena_kit.battles.battle import Source
from arena_kit.battles.log import Labels
from arena_kit.cli.main import main
from tests import naive
from tests.samples import shared_log

NAMES = ("[red]m00", *(f"m{i:02d}" for i in range(1, 10)))
SKILL = np.linspace(-225, 225, 10)


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["rate", *map(str, words)], env={"COLUMNS": "200"})


def rated(*words: str | Path) -> dict[str, Any]:
    done = call(*words, "--json")
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


class Planted:
    """Ten models 50 points apart; people decide the first 700 battles, a judge all 2,500."""

    def __init__(self, seed: int = 1, battles: int = 2500) -> None:
        self.rng = np.random.default_rng(seed)
        self.a = self.rng.integers(0, 10, battles)
        self.b = (self.a + self.rng.integers(1, 10, battles)) % 10

    def log(self, skill: np.ndarray, source: Source) -> BattleLog:
        chance = 1 / (1 + 10 ** ((skill[self.b] - skill[self.a]) / 400))
        lost = (self.rng.random(len(self.a)) > chance).astype(int)
        return shared_log(self.a, self.b, lost, NAMES, source)

    def votes(self, n: int = 700) -> BattleLog:
        return self.log(SKILL, Source.HUMAN).select(np.arange(n))

    def verdicts(self, skill: np.ndarray | None = None) -> BattleLog:
        return self.log(SKILL if skill is None else skill, Source.LLM_JUDGE)


def of(log: BattleLog, dimension: str) -> BattleLog:
    return replace(log, dimension=Labels.of([dimension] * len(log)))


def written(path: Path, *logs: BattleLog) -> Path:
    write_battles(path, logs[0] if len(logs) == 1 else BattleLog.joined(*logs))
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of votes and of verdicts; one judge puts m07 far too high, one tosses coins."""
    folder, planted = tmp_path_factory.mktemp("hybrid"), Planted()
    written(folder / "votes.csv", planted.votes())
    written(folder / "verdicts.jsonl", planted.verdicts())
    written(folder / "partial.jsonl", planted.verdicts(SKILL + 500 * (np.arange(10) == 7)))
    written(folder / "coins.parquet", planted.verdicts(0 * SKILL))
    verdicts = planted.verdicts().of_source(Source.LLM_JUDGE, "bob")
    written(folder / "several.jsonl", of(verdicts, "grace"), of(verdicts, "tone"))
    return folder


def test_json_has_everything(home: Path) -> None:
    """`--json` holds the board; people alone is a naive Bradley–Terry fit of the votes."""
    found = rated(home / "votes.csv", "--verdicts", home / "verdicts.jsonl")
    log = read_battles(home / "votes.csv")
    games = [(int(a), int(b), 1.0 - w) for a, b, w in zip(log.a, log.b, log.outcome, strict=True)]
    fit = naive.bradley_terry(games, 10, 0.0)
    assert found["method"] == "hybrid"
    assert [row["model"] for row in found["ratings"]] == list(reversed(NAMES))
    for row in found["ratings"]:
        best, worst = row["ranks"]
        assert best <= 10 - NAMES.index(row["model"]) <= worst
        assert row["verdicts"] > 400
        assert row["ci_low"] < row["rating"] < row["ci_high"]
        assert {*row["beside"]} == {"people", "judge"}
        alone = 1000 + fit[log.models.index(row["model"])] - np.mean(fit)
        assert row["beside"]["people"]["rating"] == pytest.approx(alone, abs=1e-5)
    (dimension,) = found["dimensions"]
    hybrid = dimension["hybrid"]
    assert (dimension["about"], dimension["tiers"][0][0]) == ("similar_prompts", "m09")
    assert (hybrid["disagreements"], hybrid["left_out"], hybrid["follows_people"]) == ([], {}, True)
    assert hybrid["worth"]["low"] < hybrid["worth"]["votes"] < hybrid["worth"]["high"]
    assert hybrid["effective_sample"] > 1000, "a judge without errors adds to the votes"


def test_votes_and_verdicts_in_one_file(home: Path, tmp_path: Path) -> None:
    """One file of both is parted by who decided; a file with a column per voter by the columns."""
    expected = rated(home / "votes.csv", "--verdicts", home / "verdicts.jsonl")
    votes, verdicts = read_battles(home / "votes.csv"), read_battles(home / "verdicts.jsonl")
    mixed = written(tmp_path / "mixed.jsonl", votes, verdicts)
    assert rated(mixed, "--verdicts", mixed)["ratings"] == expected["ratings"]
    label = np.array(["model_a", "model_b"])
    lines = ["question_id,model_a,model_b,human,gpt"]
    for row, theirs in zip(verdicts.to_battles(), label[verdicts.outcome], strict=True):
        lines.append(f"{row.question_id},{row.model_a},{row.model_b},model_a,{theirs}")
    for k, vote in enumerate(label[votes.outcome], 1):
        lines[k] = lines[k].replace(",model_a,", f",{vote},", 1)
    (tmp_path / "columns.csv").write_text("\n".join(lines[: 1 + len(votes)]))
    (tmp_path / "all.csv").write_text("\n".join(lines))
    words = ("--winner", "human", "--verdicts", tmp_path / "all.csv", "--verdicts-winner", "gpt")
    assert rated(tmp_path / "columns.csv", *words)["ratings"] == expected["ratings"]


def test_settings(home: Path) -> None:
    """`--set` changes Bradley–Terry's settings, and how many votes a model needs to count."""
    words = (home / "votes.csv", "--verdicts", home / "verdicts.jsonl")
    plain = rated(*words)
    moved = rated(*words, "--method", "bradley-terry", "--set", "center=1500")
    assert moved["ratings"][0]["rating"] == pytest.approx(plain["ratings"][0]["rating"] + 500)
    votes = read_battles(home / "votes.csv")
    mine = np.flatnonzero((votes.a == 3) | (votes.b == 3))
    few = written(home / "few_votes.csv", votes.select(np.setdiff1d(np.arange(700), mine[30:])))
    assert rated(few, *words[1:])["dimensions"][0]["hybrid"]["left_out"] == {}
    found = rated(few, *words[1:], "--set", "min_battles=31")
    assert found["dimensions"][0]["hybrid"]["left_out"] == {votes.models[3]: 30}
    assert {row["model"] for row in found["ratings"]} == {*NAMES}


def test_dimensions(home: Path, tmp_path: Path) -> None:
    """Dimensions that both have make a board each; one that only the judge has is unrated."""
    votes, verdicts = read_battles(home / "votes.csv"), read_battles(home / "verdicts.jsonl")
    coins = read_battles(home / "coins.parquet")
    judged = written(tmp_path / "judged.jsonl", of(verdicts, "tone"), of(coins, "wit"))
    expected = rated(home / "votes.csv", "--verdicts", home / "verdicts.jsonl")["ratings"]
    words = ("--verdicts", judged)
    assert rated(home / "votes.csv", *words, "--dimension", "tone")["ratings"] == expected
    named = written(tmp_path / "named.jsonl", of(votes, "tone"))
    done = call(named, *words)
    assert done.exit_code == 0
    assert "wit is not rated: only the judge decided on this dimension" in done.stderr
    found = rated(named, *words)
    assert [row | {"dimension": ""} for row in found["ratings"]] == expected
    assert {each["name"]: "unrated" in each for each in found["dimensions"]} == {
        "tone": False, "wit": True
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--method", "glicko2"], "--method glicko2 does not apply with --verdicts, .* bradley"),
        (["--set", "ties=davidson"], "people and judge together: method must have ties 'half'"),
        (["--set", "interval=percentile"], "must have interval 'sandwich' and no baseline"),
        (["--set", "min_battles=0"], "min_battles must be 1 or more, not 0"),
        (["--set", "k=4"], "unknown key 'k'; allowed: scale, center"),
        (["--dimension", "wit"], r"several\.jsonl: no dimension 'wit'; found: grace, tone"),
        ([], r"several\.jsonl: has several dimensions \(grace, tone\), and .*votes\.csv does not"),
        (["--judge-model", "ann"], r"several\.jsonl: no judge_model 'ann'; found: bob"),
    ],
)
def test_refused(home: Path, words: list[str], why: str) -> None:
    """Settings, methods, dimensions and judges that do not apply are refused in one sentence."""
    refused(why, home / "votes.csv", "--verdicts", home / "several.jsonl", *words)


def refused(why: str, *words: str | Path) -> None:
    done = call(*words)
    (line,) = done.stderr.strip().splitlines()
    assert (done.exit_code, bool(re.search(why, line))) == (2, True), line


def test_models_that_do_not_meet(home: Path, tmp_path: Path) -> None:
    """Verdicts on other models, on too few, or by people are refused in one sentence."""
    verdicts, votes = read_battles(home / "verdicts.jsonl"), read_battles(home / "votes.csv")
    other = replace(verdicts, models=tuple(f"x{i}" for i in range(10)))
    few = verdicts.select((verdicts.a < 4) & (verdicts.b < 4))
    for name, log, why in (
        ("other.jsonl", other, r"share no model: people voted on .*m01.*; the judge decided on x0"),
        ("few.jsonl", few, r"5 models must have verdicts and 10 human battles .* found 4: "),
        ("votes.jsonl", votes, "all battles have source 'human'"),
    ):
        refused(why, home / "votes.csv", "--verdicts", written(tmp_path / name, log))
    same = written(tmp_path / "plain.csv", replace(votes, source=None))
    refused("column 'winner' cannot be both the votes and the verdicts", same, "--verdicts", same)


def test_real_votes_and_a_judge(data: Path, tmp_path: Path) -> None:
    """Of 27,000 votes every 27th and GPT-4's verdicts say as much as 2.5 times those votes."""
    file = data / "chatbot_arena_27k" / "battles.csv.gz"
    log = read_battles(file, winner="human")
    every = rated(file, "--winner", "human", "--method", "bradley-terry")["ratings"]
    truth = {row["model"]: row["rating"] for row in every}
    some = written(tmp_path / "votes.jsonl", log.select(np.arange(0, len(log), 27)))
    found = rated(some, "--verdicts", file, "--verdicts-winner", "gpt-4-0125-preview")
    assert sum(row["votes"] for row in found["ratings"]) == 2 * 997
    assert found["dimensions"][0]["hybrid"]["effective_sample"] > 2.5 * 997
    both = np.mean([(row["rating"] - truth[row["model"]]) ** 2 for row in found["ratings"]])
    people = {row["model"]: row["beside"]["people"]["rating"] for row in found["ratings"]}
    alone = np.mean([(people[model] - rating) ** 2 for model, rating in truth.items()])
    assert len(truth) == len(found["ratings"]) == 20
    assert both < alone / 1.5
