"""The vocabulary of design/vocabulary.md: phrases that it retired do not come back."""

import re
from pathlib import Path

import pytest

from tests.samples import ROOT

RETIRED = (
    "of an equal response twice as long", "judge and people agree", "place is open between",
    "as a pair by itself", "were judged, not the bank", "about prompts like these",
    "count for nobody", "asked in this process", "walks from its start", "hold the truth in",
    "of the way from", "what they rest on and", "turn the order round", "every second time",
    "added would put", "No choice of battles", "does not read the rubric that",
    "reads no rubric", "where this judge puts it", "ranks of it alone",
    "from where people would", "cannot be said how many votes", "cannot be rated together",
    "neighbours of the top", "decided the other way round", "keeps its place at every K",
    "smuggled instruct", "otherwise than honest voters", "were to be expected", "have the floor",
    "evidence does not reach", "as many equal entrants", "is possible and at",
    "notice that the judge has changed", "worked for long",
)  # fmt: skip
PLACES = ("arena_kit", "notebooks", "params", "docs", "design", "README.md")
HISTORY = {"vocabulary.md"}


def text_of(file: Path) -> str:
    """What a file says, strings of code joined as Python joins them."""
    joined = re.sub(r"""["']\s*\n\s*[rf]?["']""", "", file.read_text())
    return " ".join(joined.split()).lower()


def files(place: Path) -> list[Path]:
    kinds = (".py", ".ipynb", ".yaml", ".md", ".html", ".js")
    found = [place] if place.is_file() else place.rglob("*")
    return [f for f in found if f.suffix in kinds and not {"_build", "reference"} & {*f.parts}]


@pytest.mark.parametrize("place", PLACES)
def test_retired_phrases(place: str) -> None:
    """No retired phrase is in a string of the package, a notebook, a params file or a page."""
    said = [
        (f"{file.relative_to(ROOT)}: {phrase}")
        for file in files(ROOT / place)
        if file.name not in HISTORY
        for text in [text_of(file)]
        for phrase in RETIRED
        if phrase.lower() in text
    ]
    assert said == []
