"""Exposure audited per provider (7.1): who was shown how often, beside what is due.

It rests on the battles alone, so whoever has the export can repeat it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from arena_kit.battles.log import BattleLog
from arena_kit.policy.coverage import ExposureFairness
from arena_kit.voting.texts import ArenaTexts

#: Where no provider is named.
UNNAMED = "(no provider named)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A model that is private (matched, published nowhere else) or withdrawn (matched no more),
    and how many votes it has.
    """

    model: str
    provider: str
    votes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderExposure:
    """What the models of one provider were shown.

    `shown` counts all votes on them, `share` is their part of all showings. `exposure` is that of
    its matched models in the rolling window, beside the target that the lanes leave them and an
    equal one (2W / M each); it is fair (`within`) inside the policy's tolerance. `outside` are its
    models that are not, each by itself.
    """

    provider: str
    models: tuple[str, ...]
    private: tuple[str, ...]
    withdrawn: tuple[str, ...]
    shown: int
    share: float
    exposure: int
    target: float
    equal_target: float
    within: bool
    outside: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureAudit:
    """Every provider's exposure, most shown first, and all variants that readers must know of."""

    providers: tuple[ProviderExposure, ...]
    private: tuple[Variant, ...]
    withdrawn: tuple[Variant, ...]


def audited(
    battles: BattleLog, texts: ArenaTexts, fairness: Iterable[ExposureFairness]
) -> ExposureAudit:
    """The audit of an arena's battles, given what each matched model was shown and is due; models
    in the battles that are matched no more are withdrawn.
    """
    shown = _shown(battles)
    withdrawn = sorted({*shown, *texts.withdrawn} - {*texts.models})
    fair = {each.model: each for each in fairness}
    whose = {m: texts.providers.get(m, UNNAMED) for m in [*texts.models, *withdrawn]}
    private = [model for model in whose if model in texts.private]
    rows = [
        _provider(name, [m for m in whose if whose[m] == name], fair, shown, private, withdrawn)
        for name in sorted({*whose.values()})
    ]

    def variants(models: Collection[str]) -> tuple[Variant, ...]:
        return tuple(
            Variant(model=m, provider=whose[m], votes=shown.get(m, 0)) for m in sorted(models)
        )

    return ExposureAudit(
        providers=tuple(sorted(rows, key=lambda row: (-row.shown, row.provider))),
        private=variants(private),
        withdrawn=variants(withdrawn),
    )


def _provider(
    name: str,
    models: Collection[str],
    fairness: Mapping[str, ExposureFairness],
    shown: Mapping[str, int],
    private: Collection[str],
    withdrawn: Collection[str],
) -> ProviderExposure:
    matched = [fairness[model] for model in models if model in fairness]
    exposure = sum(each.exposure for each in matched)
    target = sum(each.target for each in matched)
    tolerance = max((each.tolerance for each in matched), default=0.0)
    own = sum(shown.get(model, 0) for model in models)
    return ProviderExposure(
        provider=name,
        models=tuple(each.model for each in matched),
        private=tuple(model for model in models if model in private),
        withdrawn=tuple(model for model in models if model in withdrawn),
        shown=own,
        share=own / max(1, sum(shown.values())),
        exposure=exposure,
        target=target,
        equal_target=sum(each.equal_target for each in matched),
        within=abs(exposure - target) <= tolerance * target + 1e-9,
        outside=tuple(each.model for each in matched if not each.within),
    )


def _shown(battles: BattleLog) -> dict[str, int]:
    sides = np.bincount(np.append(battles.a, battles.b), minlength=len(battles.models))
    return dict(zip(battles.models, sides.tolist(), strict=True))
