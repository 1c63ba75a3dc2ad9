"""The ranking validity policy: every constant, and what each rollout phase puts in force.

Numbers in docstrings are sections of the policy; `params/policy.yaml` holds the same values
with a comment each.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import IntEnum
from math import isclose
from typing import Literal

from arena_kit.rating.bradley_terry.clusters import CLAIMS_ABOUT

#: The lane beside those of the policy as written.
DECIDES = "decide"
Order = Literal["legacy_elo", "conservative"]


class Phase(IntEnum):
    """How far the policy is rolled out (12); each phase keeps what the one before put in force."""

    SHADOW = 1
    LANES = 2
    MIGRATION = 3
    GOVERNANCE = 4

    @property
    def uses_lanes(self) -> bool:
        """Whether matchups come from the four lanes, or still from the scheme before them."""
        return self >= Phase.LANES

    @property
    def decides(self) -> bool:
        """Whether a fifth lane decides open neighbours at the top."""
        return self >= Phase.MIGRATION

    @property
    def shows_diagnostics(self) -> bool:
        """Whether readers see coverage, RD and badges, or they are computed in the shadow."""
        return self >= Phase.LANES

    @property
    def orders_by(self) -> Order:
        """What the public order rests on; a change of it begins a new epoch of rank history."""
        return "conservative" if self >= Phase.MIGRATION else "legacy_elo"

    @property
    def publishes_status(self) -> bool:
        """Whether the board is labelled officially stable or calibrating."""
        return self >= Phase.MIGRATION

    @property
    def shows_legacy_elo(self) -> bool:
        """Whether legacy Elo is shown: as the order at first, beside it during migration."""
        return self <= Phase.MIGRATION

    @property
    def publishes_weekly_report(self) -> bool:
        """Whether the weekly validity report is due."""
        return self >= Phase.GOVERNANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneWeights:
    """How often each lane is drawn (6)."""

    coverage: float = 0.4
    contender: float = 0.3
    uncertainty: float = 0.2
    exploration: float = 0.1

    def __post_init__(self) -> None:
        _shares(self, "coverage", "contender", "uncertainty", "exploration")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decide:
    """The lane that decides open neighbours of the top, from phase 3 on.

    `share` is how often it is drawn; the other lanes share the rest. Neighbours are looked at
    anew every `refresh` votes. Those that `reach` more votes between the two would decide with
    a probability under `hopeless_below` are left alone.
    """

    share: float = 0.4
    refresh: int = 100
    reach: int = 2000
    hopeless_below: float = 0.2

    def __post_init__(self) -> None:
        _between(self, "share", 0, 1)
        _least(self, refresh=1, reach=1)
        _between(self, "hopeless_below", 0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contenders:
    """The contender band and whom its members meet (4, 6.2).

    `nearest`, `other` and `challenger` are the shares of an anchor's opponents that are a
    neighbour in rank, the closest-rated other contender, and one of the `challenger_depth`
    models ranked right below the band.
    """

    band: int = 8
    nearest: float = 0.7
    other: float = 0.2
    challenger: float = 0.1
    challenger_depth: int = 8

    def __post_init__(self) -> None:
        _least(self, band=2, challenger_depth=1)
        _shares(self, "nearest", "other", "challenger")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """How equally models are shown (7.1): the rolling window in matchups, and the tolerance.

    In the coverage lane (6.1) a whole tolerance below the target weighs `weight` beside a
    model that lacks every prompt (1) and every opponent (1), and an opponent a whole
    tolerance above its target counts so much less.
    """

    window: int = 2000
    tolerance: float = 0.12
    weight: float = 10.0

    def __post_init__(self) -> None:
        _least(self, window=1, weight=0)
        _between(self, "tolerance", 0, 1, open_ends=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFloors:
    """Decisive votes a model needs on a prompt (4, 7.2), and in the contender band."""

    floor: int = 2
    top_target: int = 4

    def __post_init__(self) -> None:
        _least(self, floor=1, top_target=self.floor)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFloor:
    """Decisive votes a pair of neighbours needs, and on how many prompts (4, 7.3).

    After `patience` meetings a pair without them no longer goes first, as one that always
    ties never would have them.
    """

    votes: int = 12
    prompts: int = 6
    patience: int = 60

    def __post_init__(self) -> None:
        _least(self, prompts=1, votes=self.prompts, patience=self.votes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """How soon things may come again.

    A pair meets on the same prompt at most `same_prompt` times in any `meetings` meetings
    in a row (6.2). A session is not shown the same pair on the same prompt again within
    `session_gap` of its matchups, 0 for no limit; the last `sessions` sessions are
    remembered (11).
    """

    same_prompt: int = 2
    meetings: int = 10
    session_gap: int = 50
    sessions: int = 10_000

    def __post_init__(self) -> None:
        _least(self, same_prompt=1, meetings=self.same_prompt, session_gap=0, sessions=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """What a model must have for a badge (5.3): votes and coverage at least, RD at most."""

    decisive: int
    prompt_coverage: float
    rd: float

    def __post_init__(self) -> None:
        _least(self, decisive=0, rd=0)
        _between(self, "prompt_coverage", 0, 1)

    def implies(self, other: Threshold) -> bool:
        """Whether a model that has this has the other as well."""
        more = self.decisive >= other.decisive and self.prompt_coverage >= other.prompt_coverage
        return more and self.rd <= other.rd


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What the `top` of the board must have to be called officially stable (10).

    Models whose gap surely lies within `margin` rating points are equivalent, which is a claim
    beside those of the policy.
    """

    top: int = 10
    median_rd: float = 75.0
    pair_share: float = 0.8
    prompt_coverage: float = 0.9
    margin: float = 20.0

    def __post_init__(self) -> None:
        _least(self, top=2, median_rd=0, margin=0)
        _between(self, "pair_share", 0, 1)
        _between(self, "prompt_coverage", 0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """When both-bad votes call for a check of a model (8.3): above the rate, from so many on."""

    both_bad_rate: float = 0.2
    min_both_bad: int = 10

    def __post_init__(self) -> None:
        _between(self, "both_bad_rate", 0, 1)
        _least(self, min_both_bad=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceScale:
    """The RD shown as 100 % confidence, and how much more of it is 0 % (9.3)."""

    rd_best: float = 30.0
    rd_span: float = 320.0

    def __post_init__(self) -> None:
        _least(self, rd_best=0, rd_span=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptScores:
    """Prompts that count in a model's average score, and the spread shown as 0 % (9.1)."""

    min_votes: int = 2
    min_prompts: int = 3
    spread_cap: float = 0.5

    def __post_init__(self) -> None:
        _least(self, min_votes=1, min_prompts=2)
        _between(self, "spread_cap", 0, 1, open_ends=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyElo:
    """The rating that the policy replaces (2)."""

    k: float = 16.0
    initial: float = 1500.0

    def __post_init__(self) -> None:
        _between(self, "k", 0, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Glicko:
    """The state of a new model and the limits of every other (5.1)."""

    rating: float = 1500.0
    rd: float = 350.0
    volatility: float = 0.06
    tau: float = 0.5
    rd_min: float = 30.0
    rd_max: float = 350.0

    def __post_init__(self) -> None:
        _above(self, volatility=0, tau=0, rd_min=0)
        _least(self, rd_max=self.rd_min)
        _between(self, "rd", self.rd_min, self.rd_max)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Every constant of the policy; without arguments it is the one in `params/policy.yaml`.

    `deviations` is how many RDs the conservative score lies below the rating (4), and
    `coverage_bonus` what an opponent never met adds to its information (6.3). `claims_about`
    says what decided orders are about: the prompts that the arena asks, or prompts like them.
    Sides are drawn evenly (11), which is no setting.
    """

    phase: Phase = Phase.GOVERNANCE
    deviations: float = 2.0
    coverage_bonus: float = 0.25
    claims_about: str = "these_prompts"
    lanes: LaneWeights = field(default_factory=LaneWeights)
    decide: Decide = field(default_factory=Decide)
    contenders: Contenders = field(default_factory=Contenders)
    exposure: Exposure = field(default_factory=Exposure)
    prompts: PromptFloors = field(default_factory=PromptFloors)
    pairs: PairFloor = field(default_factory=PairFloor)
    repeats: Repeats = field(default_factory=Repeats)
    established: Threshold = field(
        default_factory=lambda: Threshold(decisive=80, prompt_coverage=0.8, rd=90.0)
    )
    stable: Threshold = field(
        default_factory=lambda: Threshold(decisive=200, prompt_coverage=0.9, rd=60.0)
    )
    publication: Publication = field(default_factory=Publication)
    quality: Quality = field(default_factory=Quality)
    confidence: ConfidenceScale = field(default_factory=ConfidenceScale)
    prompt_scores: PromptScores = field(default_factory=PromptScores)
    legacy_elo: LegacyElo = field(default_factory=LegacyElo)
    glicko: Glicko = field(default_factory=Glicko)

    def __post_init__(self) -> None:
        _least(self, deviations=0, coverage_bonus=0)
        if self.claims_about not in CLAIMS_ABOUT:
            allowed = " or ".join(CLAIMS_ABOUT)
            raise ValueError(f"claims_about must be {allowed}, not {self.claims_about!r}")
        if not self.stable.implies(self.established):
            raise ValueError("stable must ask for no less than established")
        object.__setattr__(self, "phase", Phase(self.phase))

    @property
    def lane_shares(self) -> dict[str, float]:
        """How often each lane is drawn in the policy's phase, once lanes are (6)."""
        share = self.decide_share
        written = {name: (1 - share) * weight for name, weight in asdict(self.lanes).items()}
        return written | ({DECIDES: share} if share else {})

    @property
    def decide_share(self) -> float:
        """How often the lane that decides open neighbours is drawn in the policy's phase."""
        return self.decide.share if self.phase.decides else 0.0


def _least(group: object, **lowest: float) -> None:
    for name, low in lowest.items():
        if not getattr(group, name) >= low:
            raise ValueError(f"{name} must be {low:g} or more, not {getattr(group, name)!r}")


def _above(group: object, **bounds: float) -> None:
    for name, low in bounds.items():
        if not getattr(group, name) > low:
            raise ValueError(f"{name} must be above {low:g}, not {getattr(group, name)!r}")


def _between(group: object, name: str, low: float, high: float, *, open_ends: bool = False) -> None:
    value = getattr(group, name)
    if not (low < value < high if open_ends else low <= value <= high):
        how = "between" if open_ends else "from"
        raise ValueError(f"{name} must be {how} {low:g} {'and' if open_ends else 'to'} {high:g}, "
                         f"not {value!r}")  # fmt: skip


def _shares(group: object, *names: str) -> None:
    for name in names:
        _between(group, name, 0, 1)
    total = sum(getattr(group, name) for name in names)
    if not isclose(total, 1, abs_tol=1e-9):
        raise ValueError(f"{', '.join(names)} must add up to 1, not {total:g}")
