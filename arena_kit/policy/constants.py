"""The ranking validity policy: every constant, and what each rollout phase puts in force.

Numbers in docstrings are sections of the policy; `params/policy.yaml` holds the same values
with a comment each.
"""

from __future__ import annotations

from dataclasses import asdict, field
from enum import IntEnum
from math import isclose
from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

#: The lane beside those of the policy as written.
DECIDES = "decide"
#: Looks at an arena's board, about a week apart, over which its claims hold together.
LOOKS = 80
Order = Literal["legacy_elo", "conservative"]
Share = Annotated[float, Field(ge=0, le=1)]
Part = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1)]
NonNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]

STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


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
        """Whether a fifth lane may decide open neighbours at the top."""
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


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class LaneWeights:
    """How often each lane is drawn (6)."""

    coverage: Share = 0.4
    contender: Share = 0.3
    uncertainty: Share = 0.2
    exploration: Share = 0.1

    def __post_init__(self) -> None:
        _check_sum(self, "coverage", "contender", "uncertainty", "exploration")


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Decide:
    """A fifth lane, for unresolved adjacent pairs of the top, from phase 3 on; opt-in.

    `share` is how often it is drawn, by default never; the four lanes of the policy share the
    rest. Neighbours are looked at anew every `refresh` votes. Those that `reach` more votes
    between the two would decide with a probability under `hopeless_below` are left alone.
    """

    share: Share = 0.0
    refresh: Count = 100
    reach: Count = 2000
    hopeless_below: Share = 0.2


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Contenders:
    """The contender band and whom its members meet (4, 6.2).

    `nearest`, `other` and `challenger` are the shares of an anchor's opponents that are a
    neighbour in rank, the closest-rated other contender, and one of the `challenger_depth`
    models ranked right below the band.
    """

    band: int = Field(default=8, ge=2)
    nearest: Share = 0.7
    other: Share = 0.2
    challenger: Share = 0.1
    challenger_depth: Count = 8

    def __post_init__(self) -> None:
        _check_sum(self, "nearest", "other", "challenger")


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Exposure:
    """How equally models are shown (7.1): the rolling window in matchups, and the tolerance.

    In the coverage lane (6.1) a whole tolerance below the target weighs `weight` beside a
    model that lacks every prompt (1) and every opponent (1), and an opponent a whole
    tolerance above its target counts so much less.
    """

    window: Count = 2000
    tolerance: Part = 0.12
    weight: NonNegative = 10.0


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class PromptFloors:
    """Decisive votes a model needs on a prompt (4, 7.2), and in the contender band."""

    floor: Count = 2
    top_target: int = 4

    def __post_init__(self) -> None:
        _check_at_least(self, top_target=self.floor)


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class PairFloor:
    """Decisive votes a pair of neighbours needs, and on how many prompts (4, 7.3).

    After `patience` meetings a pair without them no longer goes first, as one that always
    ties never would have them.
    """

    votes: int = 12
    prompts: Count = 6
    patience: int = 60

    def __post_init__(self) -> None:
        _check_at_least(self, votes=self.prompts, patience=self.votes)


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Repeats:
    """How soon things may come again.

    A pair meets on the same prompt at most `same_prompt` times in any `meetings` meetings
    in a row (6.2). A session is not shown the same pair on the same prompt again within
    `session_gap` of its matchups, 0 for no limit; the last `sessions` sessions are
    remembered (11).
    """

    same_prompt: Count = 2
    meetings: int = 10
    session_gap: int = Field(default=50, ge=0)
    sessions: Count = 10_000

    def __post_init__(self) -> None:
        _check_at_least(self, meetings=self.same_prompt)


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Threshold:
    """What a model must have for a badge (5.3): votes and coverage at least, RD at most."""

    decisive: int = Field(ge=0)
    prompt_coverage: Share
    rd: NonNegative

    def implies(self, other: Threshold) -> bool:
        """Whether a model that has this has the other as well."""
        more = self.decisive >= other.decisive and self.prompt_coverage >= other.prompt_coverage
        return more and self.rd <= other.rd


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Publication:
    """What the `top` of the board must have to be called officially stable (10).

    Models whose gap surely lies within `margin` rating points are equivalent, which is a claim
    beside those of the policy.
    """

    top: int = Field(default=10, ge=2)
    median_rd: NonNegative = 75.0
    pair_share: Share = 0.8
    prompt_coverage: Share = 0.9
    margin: NonNegative = 20.0


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Quality:
    """When both-bad votes call for a check of a model (8.3): above the rate, from so many on."""

    both_bad_rate: Share = 0.2
    min_both_bad: Count = 10


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class ConfidenceScale:
    """The RD shown as 100 % confidence, and how much more of it is 0 % (9.3)."""

    rd_best: NonNegative = 30.0
    rd_span: float = Field(default=320.0, ge=1)


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class PromptScores:
    """Prompts that count in a model's average score, and the spread shown as 0 % (9.1)."""

    min_votes: Count = 2
    min_prompts: int = Field(default=3, ge=2)
    spread_cap: Part = 0.5


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class LegacyElo:
    """The rating that the policy replaces (2)."""

    k: float = Field(default=16.0, ge=0, le=1000)
    initial: float = 1500.0


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Glicko:
    """The state of a new model and the limits of every other (5.1)."""

    rating: float = 1500.0
    rd: float = 350.0
    volatility: Positive = 0.06
    tau: Positive = 0.5
    rd_min: Positive = 30.0
    rd_max: float = 350.0

    def __post_init__(self) -> None:
        _check_at_least(self, rd_max=self.rd, rd=self.rd_min)


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Policy:
    """Every constant of the policy; without arguments it is the one in `params/policy.yaml`.

    `deviations` is how many RDs the conservative score lies below the rating (4), and
    `coverage_bonus` what an opponent never met adds to its information (6.3). `claims_about`
    says what decided orders are about: the prompts that the arena asks, or prompts like them.
    Sides are drawn evenly (11), which is no setting.
    """

    phase: Phase = Phase.GOVERNANCE
    deviations: NonNegative = 2.0
    coverage_bonus: NonNegative = 0.25
    claims_about: Literal["these_prompts", "similar_prompts"] = "these_prompts"
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
        if not self.stable.implies(self.established):
            raise ValueError("stable must ask for no less than established")

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


def _check_at_least(group: object, **lowest: float) -> None:
    for name, low in lowest.items():
        if getattr(group, name) < low:
            raise ValueError(f"{name} must be {low:g} or more, not {getattr(group, name)!r}")


def _check_sum(group: object, *names: str) -> None:
    total = sum(getattr(group, name) for name in names)
    if not isclose(total, 1, abs_tol=1e-9):
        raise ValueError(f"{', '.join(names)} must add up to 1, not {total:g}")
