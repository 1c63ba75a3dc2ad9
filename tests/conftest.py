"""Shared fixtures: a throwaway workspace, and the real data where it is present."""

import gc
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from arena_kit.judging.ledger.ledger import Ledger
from tests.browser import Browser, running_browser
from tests.emulator import Emulator
from tests.samples import (
    KEY,
    ROOT,
    SMALL,
    copy_workspace,
    edited,
    judgments_of,
    newcomer,
    published,
    rated,
    record_of,
    report_of,
    short_season,
)

# Dozens of children import the package: what was compiled once is kept.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Nothing that is imported and collected is garbage.
gc.disable()
# A run that starts the tests names its record there.
for variable in ("ARENA_KIT_RUNS", "ARENA_KIT_RUN_TOKEN"):
    os.environ.pop(variable, None)


def pytest_collection_finish() -> None:
    """Leave all that was imported and collected out of every garbage collection that follows."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Let it go at the end, or extension modules take it for leaked."""
    gc.unfreeze()


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real battles and published results."""
    folder = Path(os.environ.get("ARENA_KIT_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real data not found at {folder}; set ARENA_KIT_DATA")
    return folder


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh workspace with its own cache and records, as the current folder."""
    root = copy_workspace(tmp_path / "workspace")
    monkeypatch.chdir(root)
    return root


Once = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Makes a folder in the first process that asks for it, for all of them; tests that change
    such a folder copy it.
    """
    own = tmp_path_factory.getbasetemp()
    home = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def made(name: str, make: Callable[[Path], object]) -> Path:
        folder, ready = home / name, home / f"{name}.ready"
        with FileLock(home / f"{name}.lock"):
            if not ready.exists():
                shutil.rmtree(folder, ignore_errors=True)  # what a process left that failed
                make(folder)
                ready.touch()
        return folder

    return made


def _recorded(root: Path) -> None:
    with chdir(copy_workspace(root)):
        shipped = Path("params/tournament.yaml").read_bytes()
        own = SMALL | {"overrides": {"elo.n_perms": 20, "elo.seed": 0}}
        judgments = judgments_of("pilot", **own, run_dir="runs/one")
        published(judgments, figures=[rated(judgments).plot()])
        other = {"overrides": {"elo.n_perms": 20, "elo.seed": 5}}
        record_of("pilot", **SMALL | other, run_dir="runs/two")
        edited(root, judge__baseline__noise=0.3)
        record_of("pilot", **SMALL, run_dir="runs/noisy")
        Path("params/tournament.yaml").write_bytes(shipped)


@pytest.fixture(scope="session")
def recorded(once: Once) -> Path:
    """A workspace with records of a small pilot: `one` with a figure, `two` with another seed of
    Elo, `noisy` of a judge with more noise; for all tests that only read them.
    """
    return once("recorded", _recorded)


@pytest.fixture(scope="session")
def pilot_record(recorded: Path) -> Path:
    return recorded / "runs" / "one"


#: The parameters with which a notebook judges or shows little.
QUICK: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("pilot", "adaptive", "k_sweep", "judge_report"), SMALL),
    "model_pages": {"models": ["model-04"]},
}


@pytest.fixture(scope="session")
def quick_report(once: Once) -> Callable[[str], Path]:
    """Runs a notebook on little, once; gives the record with its report, which is only read."""

    def record(name: str) -> Path:
        def make(root: Path) -> None:
            short_season(copy_workspace(root))
            if name in ("adaptive", "judge_report"):
                edited(root, dimensions__clinical_utility=None)
            with chdir(root):
                tournament = QUICK.get(name) is SMALL
                report_of(name, root, "answer" if tournament else "all", **QUICK.get(name, {}))

        (page,) = once(f"report-{name}", make).glob("runs/*/report.html")
        return page.parent

    return record


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds a key or an address of a real service in the environment."""
    for name in list(os.environ):
        if name.startswith(("ANTHROPIC_", "OPENAI_")):
            monkeypatch.delenv(name)


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    """The loopback service."""
    with Emulator() as running:
        yield running


@pytest.fixture
def service(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Emulator:
    """The loopback service, which the environment names with a key."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", emulator.base_url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    return emulator


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger that does not exist yet."""
    return Ledger(tmp_path / "verdicts.sqlite")


def _installed(folder: Path) -> None:
    build = ("-m", "build", "--wheel", "--no-isolation", "-o", folder)
    newcomer(sys.executable, *build, ROOT)
    (wheel,) = folder.glob("arena_kit-*.whl")
    newcomer(sys.executable, "-m", "venv", folder / "venv")
    pip = (folder / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet")
    newcomer(*pip, "-c", ROOT / "constraints.txt", f"{wheel}[lab]")


@pytest.fixture(scope="session")
def installed(once: Once) -> Path:
    """A folder with our wheel and `venv`, which has it with `lab` and the pinned dependencies."""
    return once("installed", _installed)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser that reaches files only, for all tests of a process."""
    with running_browser(tmp_path_factory.mktemp("profile")) as started:
        yield started
