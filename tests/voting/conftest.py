"""Vote stores: a SQLite file, and a PostgreSQL server where one is installed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from arena_kit.voting.live import LiveArena
from tests.voting.arenas import live_arena
from tests.voting.postgres import Postgres, binaries, running


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    programs = binaries()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed (Debian's package postgresql)")
    with running(programs) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new vote store is to be made, on either database."""
    if request.param == "sqlite":
        return str(tmp_path / "votes.sqlite")
    return str(request.getfixturevalue("postgres").new_database())


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveArena]:
    arena = live_arena(tmp_path / "votes.sqlite")
    yield arena
    arena.close()
