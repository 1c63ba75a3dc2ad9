"""Shared fixtures: a throwaway workspace, and the real data where it is present."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from arena_kit.judging.ledger.ledger import Ledger
from tests.browser import Browser, running_browser
from tests.emulator import Emulator
from tests.samples import KEY, ROOT, SMALL, copy_workspace, judgments_of, newcomer, published, rated

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


def own_workspace(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """A fresh workspace with its own cache and records, as the current folder."""
    root = copy_workspace(folder / "workspace")
    patch.chdir(root)
    for name in ("ARENA_KIT_RUNS", "ARENA_KIT_RUN_TOKEN"):
        patch.delenv(name, raising=False)
    return root


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return own_workspace(tmp_path, monkeypatch)


@pytest.fixture(scope="session")
def pilot_record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The record of a small pilot with one figure, for all tests that only read one."""
    with pytest.MonkeyPatch.context() as patch:
        own_workspace(tmp_path_factory.mktemp("pilot"), patch)
        judgments = judgments_of("pilot", **SMALL)
        return published(judgments, figures=[rated(judgments).plot()]).path


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


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with our wheel and `venv`, which has it with `lab` and the pinned dependencies."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "installed"
    with FileLock(f"{folder}.lock"):
        if not (folder / "ready").exists():
            build = ("-m", "build", "--wheel", "--no-isolation", "-o", folder)
            newcomer(sys.executable, *build, ROOT)
            (wheel,) = folder.glob("arena_kit-*.whl")
            newcomer(sys.executable, "-m", "venv", folder / "venv")
            pip = (folder / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet")
            newcomer(*pip, "-c", ROOT / "constraints.txt", f"{wheel}[lab]")
            (folder / "ready").touch()
    return folder


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser that reaches files only, for all tests of a process."""
    with running_browser(tmp_path_factory.mktemp("profile")) as started:
        yield started
