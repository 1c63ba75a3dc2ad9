"""The sample tournament is what its data card says it is."""

import re
from collections import Counter
from statistics import mean

from arena_kit.judging.pairs.prompts import read_prompts, read_responses
from tests.samples import SAMPLE

ENTRANTS = ("aspen", "birch", "cedar", "dogwood")
PROMPTS = {prompt.prompt_id: prompt for prompt in read_prompts(SAMPLE / "prompts.jsonl")}
RESPONSES = read_responses(SAMPLE / "responses", ENTRANTS, PROMPTS)
HEDGE = re.compile(r"\b(may|might|could|perhaps|possibly|depends?|consider)\b", re.IGNORECASE)


def test_counts() -> None:
    """24 recall and 69 vignettes with gold, 50 curated; each entrant answers in its own words."""
    sources = Counter(p.source for p in PROMPTS.values())
    assert sources == {"open_recall": 24, "vignette": 69, "curated": 50}
    assert all((p.gold_answer is None) == (p.source == "curated") for p in PROMPTS.values())
    behaviors = Counter(p.expected_behavior for p in PROMPTS.values() if p.source == "curated")
    assert behaviors == {"hedge": 20, "answer": 20, "abstain": 10}
    assert set(RESPONSES) == {(e, p) for e in ENTRANTS for p in PROMPTS}
    assert len({response.response_text for response in RESPONSES.values()}) == len(RESPONSES)


def test_planted_errors() -> None:
    """Only birch and dogwood carry planted errors, and the card says it is no advice."""
    planted = Counter(
        (entrant, PROMPTS[prompt].gold_answer is not None)
        for (entrant, prompt), response in RESPONSES.items()
        if "planted_error" in response.diagnostics
    )
    assert planted == {("dogwood", True): 41, ("dogwood", False): 11, ("birch", True): 16,
                       ("birch", False): 18}  # fmt: skip
    texts = {e: [RESPONSES[e, p].response_text for p in PROMPTS] for e in ENTRANTS}
    rate = {e: mean(len(HEDGE.findall(t)) / len(t.split()) for t in texts[e]) for e in ENTRANTS}
    assert rate["cedar"] > 3 * max(rate["aspen"], rate["dogwood"])
    assert rate["birch"] == min(rate.values())
    card = (SAMPLE / "DATA_CARD.md").read_text(encoding="utf-8")
    assert "not medical advice" in card
    assert "deliberate" in card
