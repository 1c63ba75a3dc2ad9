"""From answers to verdicts, from verdicts to judgments, from judgments to battles.

A judge's text is read as a JSON object, a mark in double brackets, or one final line. Each form
counts only in its place, and prose is not read: see design/verdict-parser.md.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from arena_kit.battles.battle import Battle, Outcome, Source
from arena_kit.battles.log import BattleLog
from arena_kit.files import whole_text
from arena_kit.judging.pairs.prompts import Pair
from arena_kit.judging.verdicts import records
from arena_kit.judging.verdicts.records import Judgment, Margin, Settlement, Slot, Status, Verdict

_LONGEST = 200_000
_TAIL = 3_000
_LONGEST_LINE = 300
#: Lines that begin with a brace and are tried as JSON, the last of them.
_MOST_OBJECTS = 50

#: What a label names; C is the third choice of three.
_PLAIN: dict[str, tuple[Slot, Margin | None]] = {
    "A": (Slot.A, None), "B": (Slot.B, None), "C": (Slot.TIE, None), "TIE": (Slot.TIE, None)
}  # fmt: skip
_GRADED: dict[str, tuple[Slot, Margin | None]] = {
    "A>>B": (Slot.A, Margin.MUCH),
    "A>B": (Slot.A, Margin.BETTER),
    "A=B": (Slot.TIE, Margin.NONE),
    "B>A": (Slot.B, Margin.BETTER),
    "B>>A": (Slot.B, Margin.MUCH),
}
_LABEL = r"(?P<label>A\s*>\s*>\s*B|A\s*[>=]\s*B|B\s*>\s*>\s*A|B\s*>\s*A|A|B|C|tie)"
_VALUE = re.compile(rf"[\s\[(]*(?:(?:response|assistant)[\s_]*)?{_LABEL}[\s\])]*", re.IGNORECASE)
_MARK = re.compile(rf"\[\[\s*{_LABEL}\s*\]\]", re.IGNORECASE)
_LINE = re.compile(rf"^[ \t*]*winner[*]*:[ \t*]*{_LABEL}[ \t*.]*$", re.IGNORECASE | re.MULTILINE)
_LAST_MARK = re.compile(rf"(?:^|[.:!*)]|\bis)[ \t*]*{_MARK.pattern}[ \t*.]*$", re.IGNORECASE)
_BRACE = re.compile(r"^[ \t]*\{", re.MULTILINE)
_FENCE = " \t\r\n`"
_LINE_END = re.compile(r"[ \t]*(?:\n|$)")


class Reading(NamedTuple):
    """What was read from a text; `winner` None means that no verdict could be. `margin` is that
    of a graded verdict.
    """

    winner: Slot | None
    justification: str = ""
    margin: Margin | None = None


def read_verdict(text: str, *, graded: bool = False) -> Reading:
    """The verdict in a judge's text, none where it is absent or where two are named.

    A verdict is a JSON object with a `winner` on lines of its own that ends the text, a label in
    double brackets that ends the last line, or `Winner: A` as the last line. Where it should be
    `graded`, a label says by how much, too; one that does not is none.
    """
    text = text[-_LONGEST:]
    objects, rest, after = _objects(text)
    labels = [_label(each["winner"]) for each in objects]
    marks = [*_MARK.finditer(rest), *_LINE.finditer(rest)] if rest else []
    ends = bool(objects and not after.strip(_FENCE)) or _ends_in_verdict(rest)
    labels = [*labels, *(_normal(mark["label"]) for mark in marks)] if ends else []
    justification = str(objects[-1].get("justification", "")) if objects else text.strip()[-_TAIL:]
    named = {(_GRADED if graded else _PLAIN).get(label) for label in labels}
    winner, margin = (named.pop() if len(named) == 1 else None) or (None, None)
    return Reading(winner=winner, justification=justification, margin=margin)


def _label(value: object) -> str:
    """The label that a whole value is, empty where it is none."""
    match = _VALUE.fullmatch(value) if isinstance(value, str) else None
    return _normal(match["label"]) if match else ""


def _normal(label: str) -> str:
    return "".join(label.upper().split())


def _ends_in_verdict(text: str) -> bool:
    """Whether the last line, that of a closing code fence apart, is or ends in a verdict."""
    last = text.rstrip(_FENCE).rpartition("\n")[2][-_LONGEST_LINE:]
    return bool(_LINE.search(last) or _LAST_MARK.search(last))


def _objects(text: str) -> tuple[list[dict[str, object]], str, str]:
    """The JSON objects with a winner that stand on lines of their own, the text without them, and
    what follows the last; objects inside others do not count.
    """
    decoder = json.JSONDecoder()
    objects: list[dict[str, object]] = []
    kept, end = "", 0
    for start in [match.end() - 1 for match in _BRACE.finditer(text)][-_MOST_OBJECTS:]:
        if start < end:
            continue
        try:
            value, stop = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and "winner" in value and _LINE_END.match(text, stop):
            objects.append(value)
            kept, end = kept + text[end:start], stop
    return objects, kept + text[end:], text[end:]


def presentations(pair: Pair) -> tuple[records.Presentation, records.Presentation]:
    """A pair in both orders."""
    a, b = pair.entrants
    return records.Presentation(pair, a, b), records.Presentation(pair, b, a)


def verdict_of(
    request: records.JudgeRequest,
    answer: records.Answer | None,
    *,
    judge_model: str,
    cached: bool = False,
) -> Verdict:
    """Read an answer; one that is absent or unreadable gets a status, never a winner."""
    if answer is None:
        shown, nothing = request.presentation, "the judge returned no answer"
        return Verdict(shown, Status.MISSING, judge_model=judge_model, detail=nothing)
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
    settled = (each for each in judgments if each.settlement is not Settlement.INCOMPLETE)
    return BattleLog.from_battles(map(_battle, settled))


#: What a graded verdict gives the better response of a win: five labels at equal steps from 0
#: to 1. The order of entrants is that of any even steps; how far apart they are is a judge's own
#: scale, as it is without grades, and `rating.calibration` puts it on people's.
SHARES = {Margin.MUCH: 1.0, Margin.BETTER: 0.75, Margin.NONE: 0.5}


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
    counts = Counter(outcomes)
    dimensions = dict.fromkeys(dimension for dimension, _ in counts)
    return {d: {str(kind): counts[d, kind] for kind in kinds} for d in dimensions}
