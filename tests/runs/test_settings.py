"""Tournament file and parameters at the door; keys come from the environment or from .env."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from arena_kit.files import DataError
from arena_kit.judging.judges.base import PaidJudge, Price
from arena_kit.rating.with_judge.placement import Placement
from arena_kit.runs.settings import files
from arena_kit.runs.settings.files import PlacementSettings, override, read_tournament, refuse_keys
from arena_kit.runs.settings.judges import Backend, read_key
from arena_kit.runs.settings.parameters import RunParams
from arena_kit.runs.tournament.generate import Generation
from tests.samples import ROOT, call, edited, plan_of


def test_shipped_file(workspace: Path) -> None:
    """The shipped file is valid; a rubric of another version is refused with file and line."""
    method = read_tournament(workspace / "params" / "tournament.yaml").elo.method()
    assert (method.k, method.initial, method.n_perms, method.seed) == (16, 1400, 500, 0)
    assert (method.ties, method.both_bad, method.inconsistent) == ("drop", "drop", "drop")
    file = read_tournament(edited(workspace, dimensions__calibration__version="3"))
    paths = {name: workspace / each.rubric for name, each in file.dimensions.items()}
    with pytest.raises(DataError, match=r"calibration.md:1: .*'version 3'") as refused:
        files.read_rubrics(file.dimensions, paths)
    assert "version 2" not in str(refused.value), "the file may be a private one"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"colour": "blue"}, "unknown key 'colour'; allowed: name, entrants"),
        ({"elo__default_k": 3}, "unknown key 'elo.default_k'; allowed: k, initial, scale.*k_sweep"),
        ({"dimensions__factuality__weight": 3}, "unknown key.*allowed: rubric, version"),
        ({"entrants": ["aspen"]}, "entrants: .*at least 2"),
        ({"dimensions": {"a/b": {"rubric": "r", "version": "1"}}}, "must not hold a slash"),
        ({"entrants": ["aspen", "a|b"]}, "is not valid; not allowed: [|]"),
        ({"entrants": ["aspen", "-birch"]}, "entrant .-birch. is not valid"),
        ({"elo__k": -1}, "elo: k must be a number above 0, not -1.0$"),
        ({"elo__k": float("inf")}, "elo.k: .*finite number, got 'inf'"),
        ({"elo__k": True}, "elo.k: .*valid number, got 'True'"),
        ({"elo__k_sweep": [4, 0]}, "elo.k_sweep.1: .*greater than 0, got '0'"),
        ({"elo__k_sweep": []}, "elo.k_sweep: .*at least 1 item"),
        ({"elo__shuffle": False}, "elo: n_perms must be 1 without shuffling, not 500"),
        ({"elo__ties": "win"}, "elo.ties: .*'drop' or 'half', got 'win'"),
        ({"missing_responses": "ignore"}, "'listwise' or 'pairwise', got 'ignore'"),
        ({"prompts": None}, "prompts: Field required"),
        ({"generate": {"oak": {"backend": "anthropic", "model": "m"}}}, "defines oak, who is no"),
        ({"arena": {"private": ["elm"]}}, "arena.private names elm, who is no entrant"),
    ],
)
def test_bad_files(workspace: Path, changes: dict[str, Any], why: str) -> None:
    """A wrong tournament file is refused with the key, what is allowed and what came."""
    with pytest.raises(DataError, match=f"tournament.yaml: .*{why}"):
        read_tournament(edited(workspace, **changes))


def test_overrides() -> None:
    """Parameters override the file only where they are given."""
    file = read_tournament(ROOT / "params" / "tournament.yaml")
    assert RunParams().override(file) == file
    changed = override(file, {"elo.n_perms": 7, "judge.base_url": "http://127.0.0.1:9/"}, "x")
    assert (changed.elo.n_perms, changed.judge.base_url) == (7, "http://127.0.0.1:9")
    assert changed.elo.k == file.elo.k
    assert files.is_text("judge.base_url")
    assert not files.is_text("elo.n_perms")


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("judge.temperature", 0, "unknown key 'judge.temperature'; allowed: pilot_model"),
        ("elo.n_perms", "7", "elo.n_perms: .*valid integer, got '7'"),
        ("name", "other", "'name' names no setting in a section; sections: "),
        ("name.first", "other", "'name.first' names no setting in a section"),
        ("judges.transport", "messages", "'judges.transport' names no setting in a section"),
        ("judge.rejudge", "all", "judge: rejudge needs replay_from"),
        ("judge.key_variable", "HOME", "'HOME' is not named in the tournament file; allowed: ANTH"),
        ("placement.generate", {"key_variable": "HOME"}, "'HOME' is not named in the tournament"),
    ],
)
def test_bad_overrides(name: str, value: object, why: str) -> None:
    """A setting that does not exist or does not fit is refused in one sentence."""
    file = read_tournament(ROOT / "params" / "tournament.yaml")
    with pytest.raises(DataError, match=why):
        override(file, {name: value}, "x")


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"n_prems": 3}, "unknown key 'n_prems'; allowed: tournament, judge, judge_model"),
        ({"judge": "oracle"}, "judge: .*'baseline', 'replay'.*got 'oracle'"),
        ({"strata": {"vignette": -1}}, "strata.vignette"),
        ({"limit_pairs": -2}, "limit_pairs"),
        ({"judge_model": "\ud83d"}, "parameters of pilot: .*surrogates not allowed"),
        ({"judge_model": object()}, "parameters of pilot: .*unknown type"),
    ],
)
def test_bad_parameters(values: dict[str, Any], why: str) -> None:
    """Wrong run parameters are refused in one sentence."""
    with pytest.raises(DataError, match=why):
        files.validated(RunParams, values, "parameters of pilot")


def test_a_placement_is_the_methods_own() -> None:
    """Settings left out of a placement are the method's defaults, others go to the method."""
    usual = Placement(model="new")
    own = (usual.model, usual.min_battles)
    assert PlacementSettings(soft=False).method(*own, usual.method.seed) == usual
    given = PlacementSettings(soft=False, n_bootstraps=200, prior=0.1).method(*own, 4)
    method = replace(usual.method, resamples=200, prior=0.1, seed=4)
    assert given == replace(usual, method=method)


LOOKS = "sk-ant-api03-AbCdEfGhIjKlMnOp"
PLAIN = "f00dfeedf00dfeed"  # a key that looks like nothing in particular
NAME = "ANTHROPIC_API_KEY"
FILE = read_tournament(ROOT / "params" / "tournament.yaml")


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"judge_model": LOOKS}, "judge_model"),
        ({"judge_model": f"claude {LOOKS} please"}, "judge_model"),
        ({"header": "Authorization: Bearer abcdefghijklmnop"}, "header"),
        ({"header": "authorization: bearer abcdefghijklmnop"}, "header"),
        ({"strata": {"curated": {"deep": [1, ("x", LOOKS)]}}}, "strata.curated.deep"),
        ({"strata": {LOOKS: 3}}, "a name"),
        ({LOOKS: {"judge_model": LOOKS}}, "a name"),
    ],
)
def test_what_looks_like_a_key_is_refused(values: dict[str, Any], where: str) -> None:
    """A key is found in values and names at any depth; the message says where, and not what."""
    with pytest.raises(DataError, match=f"params.yaml: {where} holds a key; .*key_variable") as e:
        refuse_keys(values, "params.yaml")
    assert "AbCdEf" not in str(e.value)
    assert "abcdefgh" not in str(e.value)


@pytest.mark.parametrize("variable", [NAME, "OPENAI_API_KEY", "LAB_APIKEY", "HF_TOKEN"])
@pytest.mark.parametrize("values", [{"x": PLAIN}, {"x": [f"<{PLAIN}>"]}, {PLAIN: 1}])
def test_the_environments_own_key_is_refused(
    monkeypatch: pytest.MonkeyPatch, variable: str, values: dict[str, Any]
) -> None:
    """A value that equals or contains a key of the environment is refused, however it looks."""
    refuse_keys(values, "here")
    monkeypatch.setenv("MY_LAB_KEY", PLAIN)
    with pytest.raises(DataError, match="holds a key"):
        refuse_keys({"key_variable": "MY_LAB_KEY", **values}, "here")
    monkeypatch.setenv(variable, PLAIN)
    with pytest.raises(DataError, match="holds a key") as caught:
        refuse_keys(values, "here")
    assert PLAIN not in str(caught.value)


def test_ordinary_parameters_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers, names of variables, short tokens and words such as `task-` are no keys."""
    monkeypatch.setenv("SHORT_TOKEN", "curated")
    values = {"judge_model": "claude-opus-5-5", "key_variable": NAME, "max_cost_usd": 12.0}
    strata = {"curated": 3, "risk-adjusted-outcomes": None}
    refuse_keys(values | {"strata": strata, "note": "task-force-of-twelve"}, "here")


def test_a_key_stops_every_door(workspace: Path) -> None:
    """A plan, a generation, a tournament file and the command line refuse it."""
    path = workspace / "params" / "own_entrants.yaml"
    values = yaml.safe_load(path.read_text())
    values["generate"]["plain"]["key_variable"] = LOOKS
    path.write_text(yaml.safe_dump(values))
    for read in (
        lambda: plan_of("pilot", judge_model=LOOKS),
        lambda: plan_of("pilot", base_url=f"http://a.example/{LOOKS}"),
        lambda: Generation.read({"entrants": [LOOKS]}, "generate.yaml"),
        lambda: read_tournament(path),
    ):
        with pytest.raises(DataError) as caught:
            read()
        assert LOOKS not in str(caught.value)
    done = call("run", "pilot", "-p", "judge_model", LOOKS)
    assert done.exit_code == 2
    assert LOOKS not in done.output
    assert not (workspace / "runs").exists()


@pytest.mark.parametrize(
    "address",
    [
        "http://user:hunter2hunter2@127.0.0.1:8000/v1", "http://user@127.0.0.1:8000/v1",
        "http://127.0.0.1:8000/v1?key=hunter2hunter2", "ftp://127.0.0.1/v1", "127.0.0.1:8000",
    ],
)  # fmt: skip
def test_an_address_holds_no_credentials(address: str) -> None:
    """User, password and query are refused in base_url, as is anything but http and https."""
    with pytest.raises(DataError, match="base_url: must ") as caught:
        override(FILE, {"judge.base_url": address}, "here")
    assert "user:hunter2" not in str(caught.value)
    good = override(FILE, {"judge.base_url": "https://a.example/v1/"}, "x")
    assert good.judge.base_url == "https://a.example/v1"


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git working tree with a .env that git does not ignore yet."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    git(tmp_path, "init", "-q")
    (tmp_path / ".env").write_text(f"{NAME}={LOOKS}\nOTHER=x\n")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("OTHER=x", None),
        (f"{NAME}=", None),
        (f"# keys\n{NAME}={LOOKS}", LOOKS),
        (f'{NAME}="{LOOKS}"', LOOKS),
        (f"export {NAME}='{LOOKS}'  # mine", LOOKS),
    ],
)
def test_a_key_is_read_from_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, key: str | None
) -> None:
    """Outside a git working tree .env is read, in the usual spellings."""
    assert read_key(NAME, tmp_path) is None
    (tmp_path / ".env").write_text(f"{text}\n")
    monkeypatch.setenv(NAME, "")
    assert read_key(NAME, tmp_path) == key
    monkeypatch.setenv(NAME, "from-the-environment")
    assert read_key(NAME, tmp_path) == "from-the-environment"


def test_a_judge_gets_the_files_key(tmp_path: Path) -> None:
    """A key in .env makes a judge that lacks nothing; the environment is left as it was."""
    backend = Backend(kind="anthropic", model="m", base_url="http://127.0.0.1:9")
    prices = {"m": Price(model="m", input=1, output=1)}

    def judge() -> PaidJudge:
        return backend.judge(files.AnthropicSettings(), prices, tmp_path)

    assert judge().lacks == NAME  # type: ignore[attr-defined]
    (tmp_path / ".env").write_text(f"{NAME}={LOOKS}\n")
    assert judge().lacks == ""  # type: ignore[attr-defined]
    assert LOOKS not in repr(judge())
    assert NAME not in os.environ


def test_a_fresh_workspace_ignores_the_key_file(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A .env that git does not ignore is refused with the remedy; `init` makes one ignored."""
    assert call("init", repository / "arena").exit_code == 0
    git(repository / "arena", "init", "-q")
    (repository / "arena" / ".env").write_text(f"{NAME}={LOOKS}\n")
    assert read_key(NAME, repository / "arena") == LOOKS
    with pytest.raises(DataError, match=r"\.env: git does not ignore .*add \.env to") as caught:
        read_key(NAME, repository)
    assert LOOKS not in str(caught.value)
    (repository / ".gitignore").write_text(".env\n")
    assert read_key(NAME, repository) == LOOKS
    git(repository, "add", "-f", ".env")
    with pytest.raises(DataError, match="git does not ignore this file"):
        read_key(NAME, repository)
    monkeypatch.setenv(NAME, "from-the-environment")
    assert read_key(NAME, repository) == "from-the-environment"
