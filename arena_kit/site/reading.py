"""The battles of a run record with all that was said in them: what the reader shows."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from arena_kit.battles.battle import Source
from arena_kit.battles.log import BattleLog
from arena_kit.battles.read import BattleTexts, read_battle_texts, read_battles
from arena_kit.files import DataError, file_in, read_json, read_lines
from arena_kit.judging.pairs.prompts import read_prompts
from arena_kit.judging.verdicts.rendering import reference_of, templates
from arena_kit.runs.record.inputs import FOLDER, NAMES, kept_tournament, record_texts
from arena_kit.runs.record.record import open_record
from arena_kit.runs.settings.files import read_rubrics
from arena_kit.site.overview import votes_note

Verdicts = dict[str, list[dict[str, Any]]]
#: People's votes on two models' answers to a question: how often each outcome was named.
People = Mapping[tuple[str | None, frozenset[str]], Counter[str]]

_SAID = (
    "first", "second", "status", "winner", "winning_entrant", "margin", "justification", "raw_text",
    "judge_model", "served_model", "detail",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBattle:
    """One battle to read. `outcome` is that of a `Battle`, `inconsistent`, or `incomplete` where a
    verdict is missing; `people` counts their votes on it by model, `tie` and `both_bad`.
    """

    id: str
    model_a: str
    model_b: str
    outcome: str
    prompt: str
    dimension: str
    judge: str
    verdicts: list[dict[str, Any]]
    people: Mapping[str, int]

    @property
    def winner(self) -> str | None:
        """The model that won, or None."""
        return {"model_a": self.model_a, "model_b": self.model_b}.get(self.outcome)

    @property
    def disputed(self) -> bool:
        """Whether most people named the other model: both decided, and not alike."""
        votes = Counter(self.people).most_common(2)
        undivided = len(votes) == 1 or (len(votes) == 2 and votes[0][1] > votes[1][1])
        models = {self.model_a, self.model_b}
        return undivided and self.winner is not None and {votes[0][0], self.winner} == models


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The battles of a record; texts by question, and by model and question. `no_texts` says why
    there are none, `note` what is to be known about people's votes. `sent` holds what the judge was
    sent on each dimension (see `templates`), and `references` what stood beside a question.
    """

    battles: list[ReadBattle]
    prompts: Mapping[str, str] = field(default_factory=dict)
    responses: Mapping[tuple[str, str], str] = field(default_factory=dict)
    sent: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    references: Mapping[tuple[str, str], str] = field(default_factory=dict)
    note: str = ""
    no_texts: str = ""

    def only(
        self, *, entrant: str = "", dimension: str = "", outcome: str = "", text: str = ""
    ) -> Self:
        """The battles of an entrant, on a dimension, with an outcome (or `decided`), and with these
        words in the prompt or a response; all of them where nothing is named.
        """

        def fits(battle: ReadBattle) -> bool:
            sides, asked = (battle.model_a, battle.model_b), battle.prompt
            ended = ("", battle.outcome, "decided" if battle.winner else "")
            said = [self.prompts.get(asked, "")]
            said += [self.responses.get((side, asked), "") for side in sides]
            named = entrant in ("", *sides) and dimension in ("", battle.dimension)
            found = any(text.lower() in each.lower() for each in said)
            return named and outcome in ended and found

        return self.of([battle for battle in self.battles if fits(battle)])

    def of(self, battles: Sequence[ReadBattle]) -> Self:
        """Some of the battles, with their texts alone."""
        cells = {(side, b.prompt) for b in battles for side in (b.model_a, b.model_b)}
        said = {cell: text for cell, text in self.responses.items() if cell in cells}
        return replace(self, battles=list(battles), responses=said)

    def battle(self, name: str) -> ReadBattle:
        """A battle by its id."""
        for battle in self.battles:
            if battle.id == name:
                return battle
        known = f"{len(self.battles):,}; battles.jsonl lists them"
        raise DataError(f"no battle {name!r} among {known}")


def reading_of(record: Path, people: BattleLog | None = None) -> Reading:
    """All judged battles of a record, with `people`'s votes beside those that it has; of votes
    without a judge, those whose texts it keeps.
    """
    if not file_in(record, "battles.jsonl").is_file():
        return _votes(record)
    log = read_battles(record / "battles.jsonl")
    judged = record / "judged.jsonl"
    chosen = read_battles(judged) if judged.is_file() else _of_source(log, human=False)
    votes = [each for each in (_of_source(log, human=True), people) if each is not None]
    said = _named(verdicts_of(record), record)
    battles = [*_settled(chosen, said, _counted(votes, chosen)), *_incomplete(chosen, said)]
    if not battles:
        raise DataError(f"{record}: holds no judged battle")
    made = Reading(battles=battles, note=votes_note(open_record(record)))
    try:
        prompts, responses = _said_in(*record_texts(record))
    except DataError as error:
        return replace(made, no_texts=str(error))
    sent, references = _sent(record)
    return replace(made, prompts=prompts, responses=responses, sent=sent, references=references)


def _sent(record: Path) -> tuple[dict[str, tuple[str, str, str]], dict[tuple[str, str], str]]:
    """The templates of each dimension, and its reference to each question; none of a placement,
    whose questions have other names.
    """
    if (record / FOLDER / NAMES).is_file():
        return {}, {}
    file, files = kept_tournament(record)
    rubrics = read_rubrics(file.dimensions, files.rubrics)
    bank = read_prompts(files.prompts)
    sent = {name: templates(each, graded=file.judge.graded) for name, each in rubrics.items()}
    shown = {
        (name, prompt.prompt_id): text
        for name, rubric in rubrics.items()
        for prompt in bank
        if (text := reference_of(prompt, rubric))
    }
    return sent, shown


def verdicts_of(record: Path) -> Verdicts:
    """What the judge said in both orders, by battle id."""
    said: Verdicts = {}
    for file in sorted((record / "verdicts").glob("*.jsonl")):
        for _, row in read_lines(file):
            pair = sorted((row["first"], row["second"]))
            name = "|".join((row["dimension"], row["prompt_id"], *pair))
            kept = {key: row.get(key) for key in (*_SAID, "dimension", "prompt_id")}
            said.setdefault(name, []).append(kept)
    return said


def _votes(record: Path) -> Reading:
    """The votes that a record keeps among its inputs, where they have texts."""
    files = sorted(file_in(record, FOLDER).glob("battles.*"))
    if not files:
        raise DataError(f"{record}: keeps no battles")
    log, texts = read_battle_texts(files[0])
    prompts, responses = _said_in(log, texts)
    return Reading(battles=list(_settled(log, {}, {})), prompts=prompts, responses=responses)


def _of_source(log: BattleLog, *, human: bool) -> BattleLog:
    """The votes of people, or all other battles; a file that does not say is a judge's."""
    if log.source is None:
        return log.select([]) if human else log
    return log.select((log.source.values() == str(Source.HUMAN)) == human)


def _counted(logs: list[BattleLog], judged: BattleLog) -> People:
    """Votes on questions that a judge was asked, too, by question and pair."""
    asked = set() if judged.question_id is None else {*judged.question_id.names}
    counts: dict[tuple[str | None, frozenset[str]], Counter[str]] = {}
    for log in logs:
        if log.question_id is None:
            continue
        shared = np.array([*(name in asked for name in log.question_id.names), False])
        for vote in log.select(shared[log.question_id.codes]).to_battles():
            key = vote.question_id, frozenset((vote.model_a, vote.model_b))
            counts.setdefault(key, Counter())[getattr(vote, vote.winner, str(vote.winner))] += 1
    return counts


def _settled(log: BattleLog, said: Verdicts, people: People) -> Iterator[ReadBattle]:
    seen: Counter[str] = Counter()
    for n, battle in enumerate(log.to_battles()):
        name = battle.battle_id or f"battle-{n}"
        seen[name] += 1
        verdicts = said.get(name, [])
        own = [v for v in verdicts if v["judge_model"] == battle.judge_model] or verdicts
        question = battle.question_id or ""
        yield ReadBattle(
            id=name if seen[name] == 1 else f"{name}|{seen[name]}",
            model_a=battle.model_a,
            model_b=battle.model_b,
            outcome="inconsistent" if battle.inconsistent else str(battle.winner),
            prompt=question,
            dimension=battle.dimension or (own[0]["dimension"] if own else ""),
            judge=battle.served_model or battle.judge_model or "",
            verdicts=own,
            people=people.get((question, frozenset((battle.model_a, battle.model_b))), {}),
        )


def _incomplete(log: BattleLog, said: Verdicts) -> Iterator[ReadBattle]:
    """Pairs that were asked about and are no battles, for a verdict on them cannot be used."""
    ids = log.battle_id
    settled = set() if ids is None else {str(name) for name in ids}
    for name, verdicts in said.items():
        if name not in settled:
            first = verdicts[0]
            yield ReadBattle(
                id=name,
                model_a=first["first"],
                model_b=first["second"],
                outcome="incomplete",
                prompt=first["prompt_id"],
                dimension=first["dimension"],
                judge=first["judge_model"] or "",
                verdicts=verdicts,
                people={},
            )


def _named(said: Verdicts, record: Path) -> Verdicts:
    """The verdicts with models and questions called as in the battles of the record."""
    file = record / FOLDER / NAMES
    names = read_json(file) if file.is_file() else {}
    models, questions = names.get("models", {}), names.get("questions", {})
    kinds = {"first": models, "second": models, "winning_entrant": models, "prompt_id": questions}
    return {
        name: [
            row | {key: known.get(row[key], row[key]) for key, known in kinds.items()}
            for row in rows
        ]
        for name, rows in said.items()
    }


def _said_in(
    log: BattleLog, texts: BattleTexts
) -> tuple[dict[str, str], dict[tuple[str, str], str]]:
    """Each prompt and each response once."""
    prompts: dict[str, str] = {}
    responses: dict[tuple[str, str], str] = {}
    rows = zip(log.to_battles(), texts.prompt, texts.response_a, texts.response_b, strict=True)
    for battle, prompt, response_a, response_b in rows:
        question = battle.question_id or ""
        prompts[question] = prompt or ""
        responses[battle.model_a, question] = response_a or ""
        responses[battle.model_b, question] = response_b or ""
    return prompts, responses
