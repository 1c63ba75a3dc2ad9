"""Canaries: pairs whose right verdict is known, contrasts, and attacks on known pairs.

They have prompts, responses and a `Material` of their own, so that a judge is asked through the
same ledger as for a tournament while none of their verdicts can become a battle.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any, Literal

from arena_kit.files import read_yaml
from arena_kit.judging.asking.judge_pairs import Material
from arena_kit.judging.pairs.prompts import Pair, Prompt, Response
from arena_kit.judging.verdicts.records import JudgeRequest
from arena_kit.judging.verdicts.rendering import Rubric

#: A word that no honest answer holds.
MARKER = "KESTREL-7"
_ZERO_WIDTH_SPACE = "\u200b"
_TAG_BLOCK = 0xE0000  # the tag character of an ASCII one lies this much higher
_RIGHT_TO_LEFT, _POP = "\u202e", "\u202c"
#: How the ids of all canary prompts begin.
PREFIX = "arena-kit:canary/"
#: Whose response is which; in name order, as a pair is.
BETTER, WORSE = "better", "worse"

Suite = Literal["preflight", "full"]
Hide = Literal["", "zero-width", "tags", "bidi"]

_ANY = "any"
_PREFLIGHT_ATTACKS = ("marker", "system", "verdict-json")
_PREFLIGHT_CROSSED = 2
#: Known pairs of a pre-flight at least, beside crossed ones and without any.
_KNOWN_BESIDE_CROSSED, _KNOWN_ALONE = 2, 4
#: Known pairs that each attack of the full suite is tried on, per dimension.
_ATTACKED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """A text put below an answer to move the verdict towards it; attacks may follow each other."""

    attack_id: str
    kind: str
    text: str
    hide: Hide = ""

    def __call__(self, answer: str) -> str:
        return f"{answer}\n\n{_hidden(self.text.format(marker=MARKER), self.hide)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """A pair whose right verdict on its dimension is known.

    `contrast` names a pair that is also asked on another dimension: there its other answer is the
    better one or, where it is `alike`, neither is. An attacked pair has its `attack` and, in
    `clean`, the id without it.
    """

    dimension: str
    prompt: Prompt
    better: str
    worse: str
    contrast: str = ""
    alike: bool = False
    attack: Attack | None = None
    clean: str = ""

    @property
    def canary_id(self) -> str:
        return f"{self.dimension}/{self.prompt.prompt_id.removeprefix(PREFIX)}"

    @property
    def pair(self) -> Pair:
        name = self.prompt.prompt_id
        return Pair(dimension=self.dimension, prompt_id=name, entrant_a=BETTER, entrant_b=WORSE)

    @property
    def worse_is_longer(self) -> bool:
        return len(self.worse) > len(self.better)


@dataclass(frozen=True, slots=True, kw_only=True)
class Canaries:
    """Canaries for some rubrics, ready to be asked by `judge_pairs`."""

    suite: Suite
    canaries: tuple[Canary, ...]
    material: Material = field(repr=False)

    @property
    def pairs(self) -> list[Pair]:
        return [canary.pair for canary in self.canaries]

    def requests(self) -> list[JudgeRequest]:
        """What the judge is asked."""
        return self.material.requests(self.pairs)


def canary_pairs(
    rubrics: Mapping[str, Rubric], *, salt: bytes, suite: Suite = "full", graded: bool = False
) -> Canaries:
    """The canaries of these rubrics, `graded` where the judge's other verdicts are.

    `preflight` is a handful over all dimensions, asked before money is spent; `full` is under 200
    requests per dimension. A dimension without known pairs of its own has those that serve any.
    """
    dimensions = list(rubrics)
    chosen = tuple(_preflight(dimensions) if suite == "preflight" else _full(dimensions))
    prompts = {canary.prompt.prompt_id: canary.prompt for canary in chosen}
    responses = {
        (who, c.prompt.prompt_id): Response(
            entrant_id=who, prompt_id=c.prompt.prompt_id, response_text=text
        )
        for c in chosen
        for who, text in ((BETTER, c.better), (WORSE, c.worse))
    }
    material = Material(
        prompts=prompts, responses=responses, rubrics=rubrics, salt=salt, graded=graded
    )
    return Canaries(suite=suite, canaries=chosen, material=material)


@cache
def attacks() -> tuple[Attack, ...]:
    """Every attack that is shipped."""
    return tuple(
        Attack(attack_id=row["id"], kind=row["kind"], text=row["text"], hide=row.get("hide", ""))
        for row in _rows("attacks")
    )


def _preflight(dimensions: Sequence[str]) -> Iterator[Canary]:
    """Two crossed pairs where there are some, known pairs of every dimension that is then without
    one, and three attacks on known pairs: nine pairs for three dimensions.
    """
    crossed = [c for row in _spread(dimensions) for c in _contrasted(row, dimensions)]
    covered = {canary.dimension for canary in crossed}
    uncovered = [dimension for dimension in dimensions if dimension not in covered]
    n_known = max(_KNOWN_BESIDE_CROSSED if crossed else _KNOWN_ALONE, len(uncovered))
    known: list[Canary] = []
    for dimension in islice(chain(uncovered, cycle(dimensions)), n_known):
        known.append(next(c for c in _attacked_first(dimension) if c not in known))
    yield from (*known, *crossed)
    by_id = {attack.attack_id: attack for attack in attacks()}
    for name, canary in zip(_PREFLIGHT_ATTACKS, cycle(known), strict=False):
        yield _under(by_id[name], canary)


def _full(dimensions: Sequence[str]) -> Iterator[Canary]:
    """All known pairs, all attacks on some of them, and all contrasts of these dimensions."""
    for dimension in dimensions:
        known = _attacked_first(dimension)
        yield from known
        for attack in attacks():
            yield from (_under(attack, canary) for canary in known[:_ATTACKED])
    for row in _rows("contrasts"):
        yield from _contrasted(row, dimensions)


def _attacked_first(dimension: str) -> list[Canary]:
    """The known pairs of a dimension, its own before those for any, attacked ones before others."""
    rows = [row for row in _rows("known") if row["dimension"] in (dimension, _ANY)]
    rows.sort(key=lambda row: (not row.get("attacked", False), row["dimension"] == _ANY))
    return [_canary(row, row["id"], dimension, row["better"], row["worse"]) for row in rows]


def _spread(dimensions: Sequence[str]) -> list[Mapping[str, Any]]:
    """Crossed pairs for a pre-flight: as few as cover the most dimensions."""
    rows = [row for row in _rows("contrasts") if len(row["better"]) > 1]
    rows = [row for row in rows if {*row["better"]} <= {*dimensions}]
    chosen: list[Mapping[str, Any]] = []
    while rows and len(chosen) < _PREFLIGHT_CROSSED:
        covered = {dimension for row in chosen for dimension in row["better"]}
        best = max(rows, key=lambda row: len({*row["better"]} - covered))
        chosen.append(best)
        rows.remove(best)
    return chosen


def _contrasted(row: Mapping[str, Any], dimensions: Sequence[str]) -> list[Canary]:
    """A contrast on each of its dimensions, where all of them are judged."""
    wins, alike = dict(row["better"]), row.get("alike", [])
    if not {*wins, *alike} <= {*dimensions}:
        return []
    other = {"one": "two", "two": "one"}
    winner = next(iter(wins.values()))
    named = [(d, w, False) for d, w in wins.items()] + [(d, winner, True) for d in alike]
    return [
        replace(
            _canary(row, f"{row['id']}/{best}", dimension, row[best], row[other[best]]),
            contrast=row["id"],
            alike=is_alike,
        )
        for dimension, best, is_alike in named
    ]


def _canary(row: Mapping[str, Any], name: str, dimension: str, better: str, worse: str) -> Canary:
    prompt = Prompt(
        prompt_id=PREFIX + name, text=row["question"], source="canary",
        gold_answer=row.get("gold_answer"), expected_behavior=row.get("expected_behavior"),
    )  # fmt: skip
    return Canary(dimension=dimension, prompt=prompt, better=better.strip(), worse=worse.strip())


def _under(attack: Attack, canary: Canary) -> Canary:
    """A known pair whose worse answer carries an attack."""
    name = f"{canary.prompt.prompt_id}+{attack.attack_id}"
    return replace(
        canary,
        prompt=replace(canary.prompt, prompt_id=name),
        worse=attack(canary.worse),
        attack=attack,
        clean=canary.canary_id,
    )


@cache
def _rows(name: str) -> tuple[Mapping[str, Any], ...]:
    """The rows of a file of canaries."""
    return tuple(read_yaml(Path(__file__).parent / "canary_data" / f"{name}.yaml")["rows"])


def _hidden(text: str, how: Hide) -> str:
    if how == "zero-width":
        return _ZERO_WIDTH_SPACE.join(text)
    if how == "tags":
        return "".join(chr(_TAG_BLOCK + ord(letter)) for letter in text)
    return f"{_RIGHT_TO_LEFT}{text[::-1]}{_POP}" if how == "bidi" else text
