"""The public surface: small, explicit, and complete."""

from types import ModuleType

import arena_kit


def test_names_resolve() -> None:
    """Public names are documented, few, and all there are."""
    for name in arena_kit.__all__:
        found = getattr(arena_kit, name)
        assert name == "__version__" or found.__doc__, f"{name} has no docstring"
    assert len(arena_kit.__all__) <= 46  # with __version__
    assert set(dir(arena_kit)) == set(arena_kit.__all__)
    found = {
        name
        for name, value in vars(arena_kit).items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and name != "annotations"
    }
    assert found <= set(arena_kit.__all__)
    assert not hasattr(arena_kit, "write_json")
