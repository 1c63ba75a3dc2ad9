"""The demo judge: a deterministic lexical reader that needs no key and no network.

It is not a language model and every report says so. Its use is to let the whole system
run at once, and to set a floor: a paid judge that does not beat it is not worth paying.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from math import exp, tanh

from arena_kit.judging.verdicts import records
from arena_kit.judging.verdicts.rendering import Rubric, read_sections

MODEL = "baseline/lexical-v1"
_WORD = re.compile(r"[a-z]+|\d+(?:\.\d+)?")
_COMMON = frozenset(
    "a an and are as at be been but by can do does for from had has have if in into is it its of "
    "on or over than that the their then there these this to was were when which who will with "
    "not no so such very more most about after before between during each her his she he they "
    "them you your we our i should would also only other per".split()
)
_HEDGES = re.compile(
    r"\b(?:may|might|could|perhaps|possibly|sometimes|depends?|depending|unclear|uncertain(?:ty)?"
    r"|varies|vary|can differ|some (?:people|patients|centres)|it is (?:hard|difficult) to"
    r"|not (?:always|necessarily|certain|clear|known)|likely|unlikely|probably|usually|often"
    r"|suggests?|mixed|limited evidence|consider|worth discussing|reasonable)\b"
)
_ABSOLUTES = re.compile(
    r"\b(?:always|never|certainly|definitely|guaranteed?|without (?:a )?doubt|no question|exactly"
    r"|will (?:be|not)|proven|settled|full stop|every (?:patient|time)|cannot fail|100)\b"
)
_DECLINES = re.compile(
    r"\b(?:cannot (?:be|give|tell|say|name|diagnos\w+|know|confirm|predict|answer|share|find)"
    r"|can't (?:be|give|tell|say|name|diagnos\w+|know|confirm|predict|answer|share|find)"
    r"|no (?:such|reliable|record|way|one can)|nobody can|not (?:possible|able|aware|something)"
    r"|unable|don't (?:know|recognise|have)|do not (?:know|recognise|have)|i'm sorry"
    r"|isn't (?:something|possible)|impossible|would be (?:a )?guess\w*"
    r"|without (?:an )?examin\w+)\b"
)
_ACTIONS = re.compile(
    r"\b(?:give|start|stop|check|measure|order|refer|admit|repeat|monitor|treat|avoid|call|test"
    r"|take|use|arrange|add|switch|review|recheck|offer|send|replace|confirm|begin|follow|tell"
    r"|ask|book|image|biopsy|drain|inject|dose|exclude|reassess|advise)\b"
)
_QUANTITIES = re.compile(
    r"\b\d+(?:\.\d+)?\s*(?:mg|g|mcg|micrograms?|ml|mmol|iu|units?|%|hours?|days?|weeks?|months?"
    r"|minutes?|times|mmhg|kg)"
)
#: The score difference from which a graded verdict is "much better".
_MUCH = 0.25


@dataclass(frozen=True, slots=True)
class BaselineJudge:
    """Scores both responses as presented and names the higher.

    It ignores rubrics. A dimension it has no score of its own for is scored by overlap with
    the gold answer where one is shown, else by usable steps and detail; what was scored
    stands in every justification.

    Parameters
    ----------
    noise
        Standard deviation of the seeded noise on the score difference. It differs
        between the two orders of a pair, so close pairs come out inconsistent.
    slot_bias
        Added to the response shown first: a known position bias for the report to find.
    tie_margin
        Score differences smaller than this are ties.
    seed
        Seed of the noise.
    """

    noise: float = 0.06
    slot_bias: float = 0.02
    tie_margin: float = 0.02
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("noise", "tie_margin", "seed"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more, not {getattr(self, name)!r}")

    @property
    def model(self) -> str:
        return MODEL

    @property
    def settings(self) -> Mapping[str, object]:
        return {"judge": "baseline", **asdict(self)}

    @property
    def sees(self) -> bool:
        """It compares words, so images mean nothing to it."""
        return False

    def answer(self, request: records.JudgeRequest) -> records.Answer:
        sections = read_sections(request)
        dimension = request.presentation.pair.dimension
        known = "factuality" if "gold_answer" in sections else "clinical_utility"
        score, why = _SCORES.get(dimension, _SCORES[known])
        a, b = (score(sections[name], sections) for name in ("response_a", "response_b"))
        gap = a - b + self.slot_bias + self.noise * self._draw(dimension, sections)
        winner = self._label(gap, graded=request.graded)
        justification = (
            f"On {why}, response A scores {a:.2f} and response B {b:.2f}; "
            f"the difference as seen in this order is {gap:+.2f}."
        )
        text = json.dumps({"justification": justification, "winner": winner})
        usage = {"input_words": len(request.system.split()) + len(request.user.split())}
        ok = records.Status.OK
        return records.Answer(request.request_id, ok, text, self.model, usage)

    def _label(self, gap: float, *, graded: bool) -> str:
        """What a score difference in favour of the response shown first is called."""
        if not graded:
            a, b, tie = records.PLAIN_LABELS
            return tie if abs(gap) < self.tie_margin else a if gap > 0 else b
        edges = (_MUCH, self.tie_margin, -self.tie_margin, -_MUCH)
        return records.GRADED_LABELS[sum(gap < edge for edge in edges)]

    def _draw(self, dimension: str, sections: Mapping[str, str]) -> float:
        """A standard normal that depends on what is shown and in which order."""
        shown = json.dumps([self.seed, dimension, *(sections[name] for name in sorted(sections))])
        digest = hashlib.sha256(shown.encode("utf-8", "surrogatepass")).digest()
        parts = [int.from_bytes(digest[i : i + 2], "big") / 65536 for i in range(0, 24, 2)]
        return sum(parts) - 6.0


@lru_cache(maxsize=8192)  # a response is judged many times
def _stems(text: str) -> frozenset[str]:
    words = _WORD.findall(text.lower())
    return frozenset(word[:6] for word in words if word not in _COMMON)


@lru_cache(maxsize=8192)
def _count(pattern: re.Pattern[str], text: str) -> int:
    return len(pattern.findall(text.lower()))


def _rate(pattern: re.Pattern[str], text: str) -> float:
    """Matches per 100 words."""
    return 100 * _count(pattern, text) / max(20, len(text.split()))


def _factuality(text: str, sections: Mapping[str, str]) -> float:
    """Share of the gold answer's content words that the response mentions, words that the
    question already gave away counting less; other numbers than the gold's cost.
    """
    parts = (sections.get("gold_answer", ""), sections["question"], text)
    gold, asked, mentioned = map(_stems, parts)
    weight = {word: 0.3 if word in asked else 1.0 for word in gold}
    recall = sum(weight[word] for word in gold & mentioned) / max(1.0, sum(weight.values()))
    figures = {word for word in gold - asked if word[0].isdigit()}
    given = {word for word in mentioned - asked if word[0].isdigit()}
    return recall - (0.25 if figures and given and not figures & given else 0.0)


def _calibration(text: str, sections: Mapping[str, str]) -> float:
    """How well the tone fits: hedged, direct or declining, as the prompt calls for."""
    hedging, absolute = _rate(_HEDGES, text), _rate(_ABSOLUTES, text)
    declining = _rate(_DECLINES, text)
    expected = sections.get("expected_behavior")
    if expected == "abstain":
        return tanh(declining / 2) + 0.3 * tanh(hedging / 4) - 0.2 * tanh(absolute / 2)
    if expected == "answer":
        return 1 - tanh(hedging / 5) - 0.3 * tanh(declining / 2)
    ideal = 4.0 if expected == "hedge" else 1.5
    return exp(-(((hedging - ideal) / 4) ** 2)) - 0.3 * tanh(absolute / 2)


def _utility(text: str, _sections: Mapping[str, str]) -> float:
    """Steps to take and quantities, with some credit for detail, less for hedging."""
    steps = tanh(_count(_ACTIONS, text) / 5)
    numbers = tanh(_count(_QUANTITIES, text) / 3)
    detail = tanh(len(text.split()) / 90)
    return 0.5 * steps + 0.25 * numbers + 0.25 * detail - 0.4 * tanh(_rate(_HEDGES, text) / 8)


_SCORES: dict[str, tuple[Callable[[str, Mapping[str, str]], float], str]] = {
    "factuality": (_factuality, "overlap with the gold answer"),
    "calibration": (_calibration, "fit of hedging and certainty"),
    "clinical_utility": (_utility, "usable steps and detail"),
}

#: The rubrics that these scores were written for, by the SHA-256 of their texts.
_IMPLEMENTED = {
    "factuality": "cae169bc7b97b8f8445d7a19a56bee79c98f99777773d35432e9629ba9118c9a",
    "calibration": "e17736804cc13c823bee1bade9371a72ff51050fe9646250f9293b295cb18b61",
    "clinical_utility": "79a9b89e08ea4fbd31f2cafc82f730f462530e4c6e151c004e1090d22d7007c9",
}


def unread_rubrics(model: str, rubrics: Iterable[Rubric]) -> tuple[str, ...]:
    """The dimensions whose rubric a judge cannot follow: those whose text the demo judge was
    not written for, none for any other model.
    """
    if model != MODEL:
        return ()
    return tuple(r.dimension for r in rubrics if _IMPLEMENTED.get(r.dimension) != r.digest)
