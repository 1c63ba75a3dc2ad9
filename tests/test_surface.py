"""The public surface: small, explicit, and complete."""

from __future__ import annotations

import arena_kit


def test_names_resolve() -> None:
    """Every public name can be imported, and is documented."""
    for name in arena_kit.__all__:
        found = getattr(arena_kit, name)
        assert name == "__version__" or found.__doc__, f"{name} has no docstring"


def test_surface_is_small() -> None:
    """The surface is a short list; a new name is a decision."""
    assert len(arena_kit.__all__) <= 40
    assert set(dir(arena_kit)) == set(arena_kit.__all__)


def test_nothing_else_leaks() -> None:
    """A name outside the list does not exist."""
    assert not hasattr(arena_kit, "np")
    assert not hasattr(arena_kit, "write_json")
