"""arena_kit: judge verdicts and human votes, turned into ratings you can defend.

Names are loaded when first used, so `import arena_kit` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module as _import_module

__version__ = "0.1.0"

_HOMES = {
    "arena_kit.battle_log": "BattleLog",
    "arena_kit.battles": "Battle DataError Outcome Source",
    "arena_kit.prompts": "Pair Prompt Response",
    "arena_kit.battle_files": "battles_from_frame read_battles write_battles",
    "arena_kit.pair_counts": "read_pair_counts write_pair_counts",
    "arena_kit.rating.base": "Rating RatingError Ratings",
    "arena_kit.rating.bradley_terry": "BradleyTerry",
    "arena_kit.rating.elo": "PermutationElo k_sweep",
    "arena_kit.rating.glicko2": "Glicko2 GlickoState",
    "arena_kit.judging.records": "Judgment Settlement Status Verdict",
    "arena_kit.judging.tournament": "OfflineError",
    "arena_kit.rating": "claims",
    "arena_kit.rating.placement": "Placed Placement",
    "arena_kit.reporting": "costs placements plots strengths tables validity",
    "arena_kit.study": "Study",
    "arena_kit.placing": "PlacementStudy",
    "arena_kit.policy_study": "PolicyStudy",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = ["__version__", *sorted(_HOME)]  # noqa: PLE0604 (names come from the table above)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'arena_kit' has no attribute {name!r}")
    module = _HOME[name]
    if module in ("arena_kit.rating", "arena_kit.reporting"):
        return _import_module(f"{module}.{name}")
    found: object = getattr(_import_module(module), name)
    return found


def __dir__() -> list[str]:
    return __all__
