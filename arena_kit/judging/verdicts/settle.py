"""From answers to verdicts, from verdicts to judgments, from judgments to battles."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from enum import StrEnum

from arena_kit.battles.battle import Battle, Outcome, Source
from arena_kit.battles.log import BattleLog
from arena_kit.files import whole_text
from arena_kit.judging.pairs.prompts import Pair
from arena_kit.judging.verdicts import records
from arena_kit.judging.verdicts.parsing import Reading, read_verdict
from arena_kit.judging.verdicts.records import (
    Answer,
    Judgment,
    Presentation,
    Settlement,
    Status,
    Verdict,
)


def presentations(pair: Pair) -> tuple[Presentation, Presentation]:
    """A pair in both orders."""
    a, b = pair.entrant_a, pair.entrant_b
    return Presentation(pair, a, b), Presentation(pair, b, a)


def verdict_of(
    request: records.JudgeRequest, answer: Answer | None, *, judge_model: str, cached: bool = False
) -> Verdict:
    """Read an answer; one that is absent or unreadable gets a status, never a winner."""
    if answer is None:
        nothing = "the judge returned no answer"
        return Verdict(
            request.presentation, Status.MISSING, judge_model=judge_model, detail=nothing
        )
    text, status = whole_text(answer.text), answer.status
    reading = Reading(winner=None)
    if status is Status.OK:
        reading = read_verdict(text, graded=request.graded)
        status = Status.OK if reading.winner else Status.UNPARSABLE
    return Verdict(
        request.presentation, status, reading.winner, reading.margin,
        justification=whole_text(reading.justification), raw_text=text, judge_model=judge_model,
        served_model=answer.served_model, usage=answer.usage, cost_usd=answer.cost_usd,
        cached=cached, attempt=request.attempt, detail=answer.detail,
    )  # fmt: skip


def settle(forward: Verdict | None, backward: Verdict | None) -> Judgment:
    """What the two orders of a pair say together; None is an order that was not asked.

    The same entrant named twice wins; two ties are a tie; two different answers are
    inconsistent; an order without an answer leaves the pair incomplete. A pair of which one order
    was asked has that order's outcome.
    """
    asked = [verdict for verdict in (forward, backward) if verdict]
    winner, *other = (verdict.winning_entrant for verdict in asked)
    if not all(v.status is Status.OK and v.winner for v in asked):
        settlement, winner = Settlement.INCOMPLETE, None
    elif other not in ([], [winner]):
        settlement, winner = Settlement.INCONSISTENT, None
    elif not other:
        settlement = Settlement.ONE_ORDER
    else:
        settlement = Settlement.WINNER if winner else Settlement.TIE
    return Judgment(asked[0].presentation.pair, settlement, winner, forward, backward)


def settle_all(verdicts: Iterable[Verdict]) -> list[Judgment]:
    """Judgments of all pairs, in the order in which pairs first appear; of two verdicts on one
    presentation the later one counts, one without a verdict was not asked.
    """
    by_pair: dict[Pair, dict[str, Verdict]] = defaultdict(dict)
    for verdict in verdicts:
        by_pair[verdict.presentation.pair][verdict.presentation.first] = verdict
    return [settle(*map(said.get, pair.entrants)) for pair, said in by_pair.items()]


def to_battles(judgments: Iterable[Judgment]) -> BattleLog:
    """Battles of the settled judgments; incomplete ones give none."""
    return BattleLog.from_battles(
        _battle(judgment)
        for judgment in judgments
        if judgment.settlement is not Settlement.INCOMPLETE
    )


#: What a graded verdict gives the better response of a win: five labels at equal steps from 0
#: to 1. The order of entrants is that of any even steps; how far apart they are is a judge's own
#: scale, as it is without grades, and `rating.calibration` puts it on people's.
SHARES = {records.Margin.MUCH: 1.0, records.Margin.BETTER: 0.75, records.Margin.NONE: 0.5}


def share_of_first(judgment: Judgment) -> float | None:
    """The share of the win that graded orders give `entrant_a`, their mean; None where the
    verdicts are not graded, and where the two orders agree on no winner and no tie.
    """
    shares = [SHARES[verdict.margin] for verdict in judgment.verdicts if verdict.margin]
    if judgment.settlement in (Settlement.INCONSISTENT, Settlement.INCOMPLETE) or not shares:
        return None
    share = sum(shares) / len(shares)
    return 1 - share if judgment.winner == judgment.pair.entrant_b else share


def _battle(judgment: Judgment) -> Battle:
    pair, share = judgment.pair, share_of_first(judgment)
    others = {verdict.other_model for verdict in judgment.verdicts} - {""}
    won = {pair.entrant_a: Outcome.MODEL_A, pair.entrant_b: Outcome.MODEL_B}
    return Battle(
        battle_id=pair.pair_id, model_a=pair.entrant_a, model_b=pair.entrant_b,
        winner=won[judgment.winner] if judgment.winner else Outcome.TIE,
        inconsistent=judgment.settlement is Settlement.INCONSISTENT,
        source=Source.LLM_JUDGE, question_id=pair.prompt_id, dimension=pair.dimension,
        judge_model=judgment.verdicts[0].judge_model,
        served_model=" + ".join(sorted(others)) or None,
        share_a=None if share in (0.0, 0.5, 1.0) else share,  # else it says what the winner does
    )  # fmt: skip


def status_counts(judgments: Sequence[Judgment]) -> dict[str, dict[str, int]]:
    """Per dimension, how many verdicts ended in each status."""
    statuses = ((j.pair.dimension, v.status) for j in judgments for v in j.verdicts)
    return _counts(statuses, Status)


def settlement_counts(judgments: Sequence[Judgment]) -> dict[str, dict[str, int]]:
    """Per dimension, how many pairs were settled in each way."""
    return _counts(((j.pair.dimension, j.settlement) for j in judgments), Settlement)


def _counts(
    outcomes: Iterable[tuple[str, StrEnum]], kinds: Iterable[StrEnum]
) -> dict[str, dict[str, int]]:
    """How often each kind occurs in each dimension, zeros included."""
    counters: dict[str, Counter[StrEnum]] = defaultdict(Counter)
    for dimension, kind in outcomes:
        counters[dimension][kind] += 1
    return {d: {str(kind): counter[kind] for kind in kinds} for d, counter in counters.items()}
