"""What voters are shown: the prompts of a tournament and its entrants' responses to them."""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError
from arena_kit.judging.pairs.prompts import Prompt, read_prompts, read_responses
from arena_kit.judging.verdicts.rendering import Rubric
from arena_kit.runs.record.inputs import tournament_inputs
from arena_kit.runs.settings.files import read_rubrics

#: An axis and a stratum each; None where a prompt has none.
Strata = tuple[tuple[str, str | None], ...]
QUESTION = "Which response is better?"
_REFERENCES = {"gold_answer": "Reference answer", "expected_behavior": "Expected behaviour"}
_SEVERAL = "For reference"  # the title where prompts have several kinds
_WORDS_PER_MINUTE = 238  # of silent reading (Brysbaert 2019, doi 10.1016/j.jml.2019.104047)
_DECIDING = 5.0  # seconds after reading


@dataclass(frozen=True, slots=True, kw_only=True)
class ArenaTexts:
    """Prompts and responses by id, and what is known of the models that wrote them.

    `models` are those that may be matched. `providers` says whose a model is, where that is
    known; `private` are models that are matched but published nowhere else, `withdrawn` such as
    are matched no more. Ballots are balanced over the prompts' strata on the `axes`. On
    `dimensions` (`on`) voters have what their judge has: the rubrics, and beside a prompt its
    reference answer where one of them says so.
    """

    name: str
    models: tuple[str, ...]
    prompts: Mapping[str, str] = field(repr=False)
    responses: Mapping[tuple[str, str], str] = field(repr=False)
    providers: Mapping[str, str] = field(default_factory=dict)
    private: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()
    axes: tuple[str, ...] = ()
    bank: Mapping[str, Prompt] = field(default_factory=dict, repr=False)
    rubrics: Mapping[str, Rubric] = field(default_factory=dict, repr=False)
    dimensions: tuple[str, ...] = ()

    @classmethod
    def of_tournament(cls, path: Path, root: Path = Path()) -> Self:
        """The texts of a tournament file, or of a run's record that kept them."""
        file, files = tournament_inputs(path, root)
        bank = read_prompts(files.prompts)
        prompts = {prompt.prompt_id: prompt.text for prompt in bank}
        models = tuple(name for name in file.entrants if name not in file.arena.withdrawn)
        kept = read_responses(files.responses, models, prompts)
        return cls(
            name=file.name,
            models=models,
            prompts=prompts,
            responses={key: response.response_text for key, response in kept.items()},
            providers=file.arena.providers,
            private=tuple(file.arena.private),
            withdrawn=tuple(file.arena.withdrawn),
            axes=tuple(file.report.strata),
            bank={prompt.prompt_id: prompt for prompt in bank},
            rubrics=read_rubrics(file.dimensions, files.rubrics),
        )

    def on(self, dimensions: Sequence[str]) -> Self:
        """The same on some dimensions: with their rubrics, and only responses to prompts that one
        of them asks about.
        """
        texts = replace(self, dimensions=tuple(dimensions))
        left_out = {prompt for prompt in self.prompts if dimensions and not texts.asked(prompt)}
        kept = {cell: text for cell, text in self.responses.items() if cell[1] not in left_out}
        return replace(texts, responses=kept)

    def asked(self, prompt: str) -> list[str]:
        """The dimensions that voters are asked about on a prompt: one whose judge needs a gold
        answer only where there is one.
        """
        gold = prompt in self.bank and self.bank[prompt].gold_answer
        rubric = self.rubrics.get
        return [d for d in self.dimensions if gold or not ((r := rubric(d)) and r.needs_gold)]

    def rubrics_on(self, dimensions: Sequence[str]) -> list[Rubric]:
        """The rubrics of some dimensions, as far as there are any."""
        return [self.rubrics[name] for name in dimensions if name in self.rubrics]

    def reference(self, prompt: str) -> str:
        """What the judge is shown beside a prompt, of several kinds each under its title; '' where
        that is nothing.
        """
        kinds = {rubric.reference: "" for rubric in self.rubrics_on(self.asked(prompt))}
        of = {kind: str(getattr(self.bank.get(prompt), kind, "") or "") for kind in kinds}
        several = self.reference_title == _SEVERAL
        head = {kind: f"**{_REFERENCES[kind]}.** " if several else "" for kind in of if of[kind]}
        return "\n\n".join(title + of[kind] for kind, title in head.items())

    @property
    def reference_title(self) -> str:
        """What the reference is called on a page."""
        rubrics = self.rubrics_on(self.dimensions)
        titles = {_REFERENCES[r.reference] for r in rubrics if r.reference in _REFERENCES}
        return _SEVERAL if len(titles) > 1 else "".join(titles)

    def question(self, dimension: str = "") -> str:
        """What voters are asked on a dimension, by default the only one: the question that its
        rubric begins with, where it does.
        """
        rubrics = self.rubrics_on([dimension] if dimension else self.dimensions)
        _, _, text = (rubrics[0].text if len(rubrics) == 1 else "").partition("\n")
        first = " ".join(text.strip().partition("\n\n")[0].split())
        return first if first.endswith("?") else QUESTION

    @property
    def seconds_per_pair(self) -> float:
        """How long a prompt and two responses to it take to read, on average, and to decide."""
        references = [self.reference(prompt) for prompt in self.prompts]
        words = [
            sum(len(text.split()) for text in texts) / max(1, len(texts))
            for texts in (self.prompts.values(), references, self.responses.values())
        ]
        deciding = _DECIDING * max(1, len(self.dimensions))
        return 60 * (words[0] + words[1] + 2 * words[2]) / _WORDS_PER_MINUTE + deciding

    def __post_init__(self) -> None:
        if len(self.models) < 2:
            raise DataError(f"an arena needs two models or more, not {len(self.models)}")

    @property
    def digest(self) -> str:
        """Hash of all that can be shown: of its JSON text, which `json.dumps` would take twice as
        long to write.
        """
        quoted = json.encoder.encode_basestring_ascii
        prompts = [f"[{quoted(key)}, {quoted(self.prompts[key])}]" for key in sorted(self.prompts)]
        responses = [
            f"[[{quoted(model)}, {quoted(prompt)}], {quoted(self.responses[model, prompt])}]"
            for model, prompt in sorted(self.responses)
        ]
        text = f"[[{', '.join(prompts)}], [{', '.join(responses)}]]"
        return hashlib.sha256(text.encode()).hexdigest()

    def available(self) -> NDArray[np.bool_]:
        """Whether there is a response: a row per model and a column per prompt."""
        row = {model: n for n, model in enumerate(self.models)}
        column = {prompt: n for n, prompt in enumerate(self.prompts)}
        width, keys = len(column), self.responses
        cells = [row[m] * width + column[p] for m, p in keys if m in row and p in column]
        available = np.zeros(len(row) * width, bool)
        available[np.array(cells, np.intp)] = True
        return available.reshape(len(row), width)

    def strata(self, prompt: str) -> Strata:
        """The stratum of a prompt on each axis."""
        asked = self.bank.get(prompt)
        return tuple((axis, asked.stratum(axis) if asked else None) for axis in self.axes)

    def prompts_by(self, axis: str) -> dict[str, set[str]]:
        """The prompts of each stratum on an axis."""
        found: dict[str, set[str]] = {}
        for name, prompt in self.bank.items():
            if (stratum := prompt.stratum(axis)) is not None:
                found.setdefault(stratum, set()).add(name)
        return found

    def shown(self, prompt: str, left: str, right: str) -> tuple[str, str, str] | None:
        """The prompt and the responses of two models, None where one of them is gone."""
        if prompt not in self.prompts or not {left, right} <= {*self.models}:
            return None
        first, second = self.responses.get((left, prompt)), self.responses.get((right, prompt))
        return None if first is None or second is None else (self.prompts[prompt], first, second)

    def of(self, log: BattleLog) -> dict[str, NDArray[np.object_]]:
        """What was said in each battle, by column; None where it is gone."""
        votes = [(b.question_id or "", b.model_a, b.model_b) for b in log.to_battles()]
        sides = ([self.responses.get((v[n], v[0])) for v in votes] for n in (1, 2))
        said = [[self.prompts.get(question) for question, *_ in votes], *sides]
        names = ("prompt", "response_a", "response_b")
        return {name: np.array(each, object) for name, each in zip(names, said, strict=True)}

    def digest_now(self, prompt: str, left: str, right: str) -> str | None:
        """The digest of what is shown now, None where it is gone."""
        texts = self.shown(prompt, left, right)
        if texts is None:
            return None
        rubrics = self.rubrics_on(self.asked(prompt))
        beside = (*(each.text for each in rubrics), self.reference(prompt)) if rubrics else ()
        return hashlib.sha256(json.dumps(texts + beside).encode()).hexdigest()


class BalancedDraw:
    """Which prompts a ballot draws from next, so that strata get equal shares, up to one.

    The first axis comes first: its stratum that the ballot has drawn least, then that of the second
    axis among its prompts, and so on; of equal ones the stratum that was drawn least `before`. Only
    these `prompts` are drawn, and only where two models responded.
    """

    def __init__(
        self, texts: ArenaTexts, prompts: Collection[str] | None, before: Iterable[str]
    ) -> None:
        self._strata = texts.strata
        self._here: Counter[tuple[str, str | None]] = Counter()
        self._before = Counter(stratum for prompt in before for stratum in texts.strata(prompt))
        self._cells: dict[Strata, list[str]] = {}
        for prompt, n in zip(texts.prompts, texts.available().sum(axis=0), strict=True):
            if n >= 2 and (prompts is None or prompt in prompts):
                self._cells.setdefault(texts.strata(prompt), []).append(prompt)

    def add(self, prompt: str) -> None:
        """Count a prompt that was drawn."""
        for count in (self._here, self._before):
            count.update(self._strata(prompt))

    def least_first(self) -> list[list[str]]:
        """The prompts of one combination of strata after the other, the one that is due first."""
        counts = (self._here, self._before)
        due = sorted(self._cells, key=lambda cell: [n[stratum] for n in counts for stratum in cell])
        return [self._cells[cell] for cell in due]
