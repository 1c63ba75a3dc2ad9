"""The public surface: small, explicit, and complete."""

from types import ModuleType

import arena_kit


def test_names_resolve() -> None:
    """Every public name can be imported, and is documented."""
    for name in arena_kit.__all__:
        found = getattr(arena_kit, name)
        assert name == "__version__" or found.__doc__, f"{name} has no docstring"


def test_surface_is_small() -> None:
    """The surface is a short list; a new name is a decision."""
    assert len(arena_kit.__all__) <= 46  # with __version__
    assert set(dir(arena_kit)) == set(arena_kit.__all__)


def test_nothing_else_leaks() -> None:
    """Besides the list and the package's own modules, no public name exists."""
    found = {
        name
        for name, value in vars(arena_kit).items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and name != "annotations"
    }
    assert found <= set(arena_kit.__all__)
    assert not hasattr(arena_kit, "write_json")
