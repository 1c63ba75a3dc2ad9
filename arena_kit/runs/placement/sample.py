"""Which recorded answers of an arena a new model is compared with: filtered, balanced, seeded."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from arena_kit.battles.battle import check_entrant_id, check_id
from arena_kit.battles.content import until
from arena_kit.battles.log import BattleLog, Labels
from arena_kit.battles.read import BattleTexts
from arena_kit.files import DataError
from arena_kit.judging.pairs.prompts import Pair, Prompt, Response

#: What the prompts of an arena have for a stratum.
SOURCE = "arena"
#: Models among which a judge's error is looked for, where they have battles enough.
FEW = 10


class RecordedBattle(NamedTuple):
    """A battle of the arena of which both answers are on record; the models in name order."""

    question: str
    model_a: str
    model_b: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTexts:
    """What was asked and answered in an arena, by question id and model name.

    `battles` lists each question and pair of models once. `left_out` counts the battles that
    could not be used, by the reason.
    """

    prompts: Mapping[str, Prompt] = field(repr=False)
    answers: Mapping[tuple[str, str], str] = field(repr=False)
    battles: Sequence[RecordedBattle] = field(repr=False)
    left_out: Mapping[str, int]

    @classmethod
    def of_file(
        cls,
        battles: BattleLog,
        texts: BattleTexts,
        *,
        languages: Collection[str] = (),
        single_turn: bool = True,
    ) -> RecordedTexts:
        """The texts of an arena's own file.

        Parameters
        ----------
        languages
            Only battles in these languages; empty takes all.
        single_turn
            Leaves out battles of which the file says that the user wrote more than once: people
            then voted on more than the first answer.
        """
        prompts: dict[str, Prompt] = {}
        answers: dict[tuple[str, str], str] = {}
        recorded: dict[RecordedBattle, None] = {}
        left_out = Counter[str]()
        for row, question in enumerate(question_ids(battles, texts)):
            prompt = texts.prompt[row]
            answers_here = (until(each[row], 1) for each in (texts.response_a, texts.response_b))
            sides = (battles.models[side[row]] for side in (battles.a, battles.b))
            written = {(who, question): x for who, x in zip(sides, answers_here, strict=True)}
            known = prompts.get(question)
            if why := _unusable(texts, row, languages, single_turn=single_turn):
                left_out[why] += 1
            elif known is not None and known.text != prompt:
                left_out["another prompt under the same question id"] += 1
            elif any(answers.get(cell, text) != text for cell, text in written.items()):
                left_out["another answer of the same model to the same question"] += 1
            else:
                prompts[question] = known or Prompt(
                    prompt_id=prompt_id(question), text=prompt, source=SOURCE
                )
                answers.update(written)
                recorded[RecordedBattle(question, *sorted(model for model, _ in written))] = None
        if not recorded:
            raise _nothing_usable(left_out, texts)
        return cls(prompts=prompts, answers=answers, battles=list(recorded), left_out=left_out)

    @classmethod
    def of_bank(
        cls,
        battles: BattleLog,
        bank: Sequence[Prompt],
        responses: Mapping[tuple[str, str], Response],
    ) -> RecordedTexts:
        """Prompts and responses of one's own for battles that name their question."""
        prompts = {prompt.prompt_id: prompt for prompt in bank}
        answers = {key: each.response_text for key, each in responses.items()}
        recorded: dict[RecordedBattle, None] = {}
        left_out: Counter[str] = Counter()
        for question, *sides in battles.compared():
            if question not in prompts:
                left_out["a question outside the prompt bank"] += 1
            elif any((model, question) not in answers for model in sides):
                left_out["without both responses"] += 1
            else:
                recorded[RecordedBattle(str(question), *sides)] = None
        return cls(prompts=prompts, answers=answers, battles=list(recorded), left_out=left_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArenaSample:
    """What is to be judged: the model against recorded answers (`battles`), and recorded battles
    that people decided too (`shared`), from which the judge's own error is known. `left_out` counts
    the battles of the arena that could not be drawn, by the reason.

    Prompts and responses have ids that are safe in files; `models` and `questions` give the
    arena's own names back where those were not.
    """

    model: str
    entrant: str
    prompts: tuple[Prompt, ...] = field(repr=False)
    recorded: Mapping[tuple[str, str], Response] = field(repr=False)
    battles: tuple[Pair, ...] = field(repr=False)
    shared: tuple[Pair, ...] = field(repr=False)
    models: Mapping[str, str] = field(repr=False)
    questions: Mapping[str, str] = field(repr=False)
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def asked(self) -> tuple[Prompt, ...]:
        """The prompts that the model has to answer."""
        ids = {pair.prompt_id for pair in self.battles}
        return tuple(prompt for prompt in self.prompts if prompt.prompt_id in ids)

    @property
    def opponents(self) -> dict[str, int]:
        """Battles of the model against each opponent, by the arena's names."""
        sides = (self._name(self.opponent(pair)) for pair in self.battles)
        return dict(sorted(Counter(sides).items()))

    def opponent(self, pair: Pair) -> str:
        """Whom the model meets in a battle."""
        return pair.entrant_b if pair.entrant_a == self.entrant else pair.entrant_a

    def renamed(self, judged: BattleLog) -> BattleLog:
        """Judged battles under the arena's own names of models and questions."""
        return BattleLog.from_battles(
            replace(
                battle,
                model_a=self._name(battle.model_a),
                model_b=self._name(battle.model_b),
                question_id=self.questions.get(str(battle.question_id), battle.question_id),
            )
            for battle in judged.to_battles()
        )

    def _name(self, entrant: str) -> str:
        return self.models.get(entrant, entrant)


def draw(
    texts: RecordedTexts,
    model: str,
    opponents: Collection[str],
    *,
    dimension: str,
    n_battles: int,
    n_shared: int = 0,
    seed: int = 0,
    answered: Collection[str] | None = None,
    needs_gold: bool = False,
) -> ArenaSample:
    """A seeded sample of prompts and opponents.

    Opponents have equally many battles, or one more, as long as their recorded answers last, and
    a prompt comes again only where all others of an opponent have come as often.

    Parameters
    ----------
    model, opponents
        Who is placed, and against whom; the model's own recorded answers are not used.
    n_battles
        Battles of the model; refused where the arena has fewer recorded answers.
    n_shared
        Recorded battles among the opponents, drawn at random; fewer where the arena has fewer.
        They are among the ten opponents with the most, or as many more as it takes: a judge's
        error shows on models with many battles, not on many models with a few.
    answered
        Question ids that the model has answered; None where it can answer any.
    needs_gold
        Whether only prompts with a gold answer count.
    """
    others = sorted({*opponents} - {model})
    usable = {q for q, prompt in texts.prompts.items() if prompt.gold_answer or not needs_gold}
    mine = usable if answered is None else usable & {*answered}
    cells: dict[str, list[str]] = {name: [] for name in others}
    for name, question in texts.answers:
        if name in cells and question in mine:
            cells[name].append(question)
    drawn = _balanced(cells, n_battles, seed)
    among = _among_few([b for b in texts.battles if b.question in usable], others, n_shared)
    order = np.random.default_rng([seed, 1]).permutation(len(among))[:n_shared]
    return _sample(texts, model, drawn, [among[i] for i in sorted(order)], dimension)


def question_ids(battles: BattleLog, texts: BattleTexts) -> list[str]:
    """The question of every battle: as the file says, else by the text of its prompt."""
    return [
        str(name) if name is not None else _hashed("prompt", prompt or "")
        for (name, *_), prompt in zip(battles.compared(), texts.prompt, strict=True)
    ]


def with_question_ids(battles: BattleLog, texts: BattleTexts) -> BattleLog:
    """The battles, each with a question: battles on equal prompts are not independent."""
    return replace(battles, question_id=Labels.of(question_ids(battles, texts)))


def _unusable(
    texts: BattleTexts, row: int, languages: Collection[str], *, single_turn: bool
) -> str:
    """Why a battle cannot be used; empty where it can."""
    responses = (texts.response_a[row], texts.response_b[row])
    if not (texts.prompt[row] or "").strip() or None in responses:
        return "without a prompt and both answers"
    if single_turn and texts.turns[row] > 1:
        return "more than one turn"
    if languages and texts.language[row] not in languages:
        return "another language, or none named"
    return ""


def _nothing_usable(left_out: Mapping[str, int], texts: BattleTexts) -> DataError:
    why = "; ".join(f"{n} {reason}" for reason, n in left_out.items()) or "there are none"
    named = sorted({str(name) for name in texts.language if name})
    languages = f"; languages named: {', '.join(named[:20])}" if named else ""
    return DataError(f"no battle of the arena can be used: {why}{languages}")


def _balanced(cells: Mapping[str, list[str]], n: int, seed: int) -> list[tuple[str, str]]:
    """`n` cells (question, opponent), opponents in turn, each question as seldom as possible."""
    if (there := sum(map(len, cells.values()))) < n:
        raise DataError(
            f"n_battles is {n}, but the arena has only {there} recorded answers of opponents "
            "that can be used; take fewer, or widen languages, single_turn or min_battles"
        )
    queues = {name: _shuffled(sorted(questions), seed, name) for name, questions in cells.items()}
    turns = [list(cells)[i] for i in np.random.default_rng(seed).permutation(len(cells))]
    uses: Counter[str] = Counter()
    drawn: list[tuple[str, str]] = []
    while len(drawn) < n:
        for name in turns:
            if queues[name] and len(drawn) < n:
                fresh = next((q for q in queues[name] if not uses[q]), None)
                question = fresh or min(queues[name], key=uses.__getitem__)
                queues[name].remove(question)
                uses[question] += 1
                drawn.append((question, name))
    return drawn


def _among_few(
    battles: Sequence[RecordedBattle], models: Sequence[str], n: int
) -> list[RecordedBattle]:
    """The battles among the models with the most of them: as few models as have `n`, and at least
    `FEW`; all where even that is too little.
    """
    mine = {*models}
    known = [b for b in battles if b.model_a in mine and b.model_b in mine]
    counts = Counter(model for battle in known for model in battle[1:])
    ranked = sorted(counts, key=lambda model: (-counts[model], model))
    place = {model: rank for rank, model in enumerate(ranked, 1)}
    needed = [max(place[b.model_a], place[b.model_b]) for b in known]  # models until it is among
    most = max(FEW, sorted(needed)[n - 1]) if 0 < n <= len(needed) else len(ranked)
    return [battle for battle, rank in zip(known, needed, strict=True) if rank <= most]


def _shuffled(questions: Sequence[str], seed: int, name: str) -> list[str]:
    """In an order of the opponent's own, so that another opponent more changes none of it."""
    order = np.random.default_rng([seed, *name.encode()]).permutation(len(questions))
    return [questions[i] for i in order]


def _sample(
    texts: RecordedTexts,
    model: str,
    drawn: Sequence[tuple[str, str]],
    shared: Sequence[RecordedBattle],
    dimension: str,
) -> ArenaSample:
    names = {model, *(name for _, name in drawn), *(n for b in shared for n in b[1:])}
    entrants = {name: entrant_id(name) for name in sorted(names)}
    questions = {q: texts.prompts[q].prompt_id for q, *_ in [*drawn, *shared]}
    met = [(q, model, name) for q, name in drawn]
    cells = [(name, q) for q, *sides in [*met, *shared] for name in sides if name != model]

    def pairs(rows: Iterable[tuple[str, str, str]]) -> tuple[Pair, ...]:
        named = ((questions[q], *sorted((entrants[a], entrants[b]))) for q, a, b in rows)
        return tuple(
            Pair(dimension=dimension, prompt_id=prompt, entrant_a=first, entrant_b=second)
            for prompt, first, second in named
        )

    return ArenaSample(
        model=model,
        entrant=entrants[model],
        prompts=tuple(texts.prompts[q] for q in questions),
        recorded={
            (entrants[name], questions[q]): Response(
                entrant_id=entrants[name],
                prompt_id=questions[q],
                response_text=texts.answers[name, q],
            )
            for name, q in cells
        },
        battles=pairs(met),
        shared=pairs(shared),
        models={entrant: name for name, entrant in entrants.items() if entrant != name},
        questions={safe: q for q, safe in questions.items() if safe != q},
        left_out=texts.left_out,
    )


def prompt_id(question: str) -> str:
    """The question's id where it is safe in files, else one made from it."""
    return _safe(check_id, "question", question)


def entrant_id(model: str) -> str:
    """The model's name where it can be an id, else one made from it."""
    return _safe(check_entrant_id, "model", model)


def _safe(check: Callable[[str, str], str], kind: str, name: str) -> str:
    with suppress(DataError):
        return check(name, kind)
    return _hashed(kind, name)


def _hashed(kind: str, text: str) -> str:
    return f"{kind}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
