"""The files that a tournament reads, and what the record of a run keeps of them.

A record with copies stands alone: its battles can be read beside their texts, and its tournament
can be judged or rated again in any workspace.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from arena_kit.battles import content as pictures
from arena_kit.battles.battle import Source
from arena_kit.battles.log import BattleLog
from arena_kit.battles.read import BattleTexts, read_battles
from arena_kit.battles.readers.format import Columns
from arena_kit.files import DataError, file_hash, file_in, read_bytes, read_json, whole_file
from arena_kit.judging.pairs.prompts import read_prompts, read_responses, responses_file
from arena_kit.runs.record.record import Record, open_record, recorded_parameters
from arena_kit.runs.settings import files as settings

FOLDER = "inputs"
#: What a placement's kept models and questions are called in its battles, where ids differ.
NAMES = "names.json"
#: Parameters of a run that say who is asked, where and for how much: a replay takes none of them
#: from a record, which may be somebody else's.
_NOT_REPLAYED = {"judge_model", "max_cost_usd", "offline", "overrides", "run_dir"}


class KeptFile(settings.Strict):
    """One input of a run as its manifest lists it; `kept` says whether the record has a copy."""

    bytes: int
    sha256: str
    kept: bool


class _Kept(settings.Strict):
    files: dict[str, KeptFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFiles:
    """Where a tournament's files are; `responses` is the folder of its entrants' files."""

    tournament: Path
    prompts: Path
    responses: Path
    rubrics: Mapping[str, Path]
    prices: Path

    @classmethod
    def in_workspace(cls, path: Path, file: settings.TournamentFile, root: Path) -> InputFiles:
        """As the tournament file says."""
        return cls(
            tournament=path,
            prompts=root / file.prompts,
            responses=root / file.responses,
            rubrics={name: root / each.rubric for name, each in file.dimensions.items()},
            prices=root / file.prices,
        )

    @classmethod
    def in_record(cls, record: Path, file: settings.TournamentFile) -> InputFiles:
        """Under the names that a record gives them."""
        folder = record / FOLDER
        zipped = ".gz" if file.prompts.suffix == ".gz" else ""
        return cls(
            tournament=folder / "tournament.yaml",
            prompts=folder / f"prompts.jsonl{zipped}",
            responses=folder / "responses",
            rubrics={name: folder / "rubrics" / f"{name}.md" for name in file.dimensions},
            prices=folder / "prices.yaml",
        )

    def each(self, entrants: Iterable[str]) -> list[Path]:
        """All files, with the responses of these entrants."""
        responses = [responses_file(self.responses, entrant) for entrant in entrants]
        return [self.tournament, self.prices, self.prompts, *self.rubrics.values(), *responses]


def tournament_inputs(path: Path, root: Path) -> tuple[settings.TournamentFile, InputFiles]:
    """A tournament and its files. `path` is its file, or the record of a run that kept copies:
    verdicts, prices, where models are asked and what the judge must keep are then the workspace's.
    """
    if not path.is_dir():
        file = settings.read_tournament(path)
        return file, InputFiles.in_workspace(path, file, root)
    file, files = kept_tournament(path)
    own = settings.read_tournament(root / settings.DEFAULT_TOURNAMENT)
    judge = file.judge.model_copy(
        update={name: getattr(own.judge, name) for name in settings.OWN_JUDGE_SETTINGS}
    )
    placement = file.placement.model_copy(update={"generate": own.placement.generate})
    changes = {"verdicts": own.verdicts, "prices": own.prices, "judge": judge, "generate": {}}
    return file.model_copy(update=changes | {"placement": placement}), files


def keep_tournament(
    record: Record, file: settings.TournamentFile, files: InputFiles, how: settings.Keeping = "copy"
) -> None:
    """Keep the files of a tournament; the price file only where there is one."""
    kept = InputFiles.in_record(record.path, file)
    pairs = zip(kept.each(file.entrants), files.each(file.entrants), strict=True)
    folder = record.path / FOLDER
    named = {to.relative_to(folder).as_posix(): path for to, path in pairs}
    if not files.prices.is_file():
        del named[kept.prices.name]
    keep_inputs(record, named, how)


def keep_inputs(record: Record, files: dict[str, Path], how: settings.Keeping = "copy") -> None:
    """Keep files in a record's `inputs/` under these names, with the pictures that they name, or
    nothing but their sizes and hashes; the manifest lists them beside those that were kept before.
    """
    listed = {}
    for name, path in (files | _pictures(files.values())).items():
        content = read_bytes(path)
        target = record.path / FOLDER / name
        if how == "copy":
            if target.suffix == ".yaml":  # a comment in it may hold one
                settings.refuse_keys({"the file": content.decode("utf-8", "replace")}, str(path))
            with whole_file(target) as part:
                part.write_bytes(content)
        else:
            target.unlink(missing_ok=True)
        digest = hashlib.sha256(content).hexdigest()
        listed[name] = {"bytes": len(content), "sha256": digest, "kept": how == "copy"}
    record.update(inputs=record.read().get("inputs", {}) | listed)


def _pictures(files: Iterable[Path]) -> dict[str, Path]:
    """The pictures that files name and that lie beside them, under the names of a record; beside a
    Parquet file, which is compressed, all of them.
    """
    found: dict[str, Path] = {}
    for file in files:
        content = gzip.decompress(read_bytes(file)) if file.suffix == ".gz" else read_bytes(file)
        named = {*pictures.NAMES.findall(content)}
        for folder in (file.parent, *file.parents[1:2]):
            there = [path for path in (folder / pictures.FOLDER).glob("*.*") if path.is_file()]
            wanted = (p for p in there if p.name.encode() in named or file.suffix == ".parquet")
            found |= {f"{pictures.FOLDER}/{path.name}": path for path in wanted}
    return found


def kept_tournament(record: Path) -> tuple[settings.TournamentFile, InputFiles]:
    """The tournament whose copy a record kept, each file verified by its hash."""
    manifest = open_record(record)
    listed = {"files": manifest.get("inputs", {})}
    files = settings.validated(_Kept, listed, f"{record}/manifest.json: inputs").files
    if "tournament.yaml" not in files:
        raise DataError(f"{record}: keeps no tournament file among its inputs")
    if not all(entry.kept for entry in files.values()):
        raise DataError(f"{record}: keeps only hashes of its inputs (parameter inputs: hashes)")
    for name, entry in files.items():
        path = record / FOLDER / name
        if (now := file_hash(path)) != entry.sha256:
            raise DataError(
                f"{path}: changed since the run: its SHA-256 was {entry.sha256[:12]}…, "
                f"now {now[:12]}…"
            )
    file = settings.read_tournament(record / FOLDER / "tournament.yaml")
    return file, InputFiles.in_record(record, file)


def replay_parameters(record: Path) -> dict[str, Any]:
    """The parameters of a run that repeats a record's verdicts on its inputs, which it kept."""
    kept_tournament(record)
    recorded = recorded_parameters(record)
    here = str(record.resolve())
    given = recorded.get("overrides", {}).items()
    overrides = {name: value for name, value in given if not name.startswith("judge.")}
    return {
        **{name: value for name, value in recorded.items() if name not in _NOT_REPLAYED},
        "tournament": here,
        "judge": "replay",
        "overrides": overrides | {"judge.replay_from": here},
    }


def record_texts(record: str | Path) -> tuple[BattleLog, BattleTexts]:
    """The battles of a record and what was said in each, from the record alone; a placement's
    votes on other prompts than those that were judged are left out.
    """
    record = Path(record)
    file, files = kept_tournament(record)
    called = record / FOLDER / NAMES
    names = read_json(called) if called.is_file() else {"models": {}, "questions": {}}
    models, questions = names["models"], names["questions"]
    bank = read_prompts(files.prompts)
    prompts = {questions.get(p.prompt_id, p.prompt_id): p.text for p in bank}
    kept = read_responses(files.responses, file.entrants, [p.prompt_id for p in bank])
    responses = {
        (models.get(who, who), questions.get(what, what)): response.response_text
        for (who, what), response in kept.items()
    }
    log = read_battles(record / "battles.jsonl")
    whole = np.array([all(cell in responses for cell in cells) for cells in _cells(log)], bool)
    log = log.select(whole)
    cells = list(_cells(log))
    return log, BattleTexts(
        prompt=np.array([prompts[question] for (_, question), _ in cells], object),
        response_a=np.array([responses[first] for first, _ in cells], object),
        response_b=np.array([responses[second] for _, second in cells], object),
        language=np.full(len(log), None, object),
        turns=np.array([pictures.turns_of(responses[first]) for first, _ in cells], np.int32),
    )


def _cells(log: BattleLog) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """The model and the question of either side of each battle."""
    column = log.question_id
    asked = np.full(len(log), None, object) if column is None else column.values()
    for a, b, question in zip(log.a, log.b, asked, strict=True):
        yield (log.models[a], question), (log.models[b], question)


def battles_file(path: Path) -> Path:
    """A battles file, or the one in a run record."""
    return file_in(path, "battles.jsonl") if path.is_dir() else path


def battles_of(
    file: str | Path,
    root: Path = Path(),
    *,
    winner: str = "winner",
    covariates: tuple[str, ...] = (),
    strata: tuple[str, ...] = (),
    format: str | None = None,  # noqa: A002 (what --format takes)
    columns: Columns | None = None,
    source: Source | None = None,
    dimension: str | None = None,
    judge_model: str | None = None,
) -> BattleLog:
    """The battles of a file or a run record.

    Parameters
    ----------
    winner, covariates, strata, format, columns
        How the file is read, as `read_battles` takes it; strata of a record are its prompts'.
    source
        Leaves out what the other source decided.
    dimension, judge_model
        Only these battles. Empty is the only one there is, and refuses several; None is all.
    """
    path = battles_file(root / file)
    prompts = path.parent / "inputs" / "prompts.jsonl"
    kept = bool(strata) and (path.parent / "manifest.json").is_file()
    battles = read_battles(path, winner=winner, covariates=covariates,
                           strata=() if kept else strata, format=format,
                           columns=columns)  # fmt: skip
    if kept:
        battles = battles.with_strata({axis: _strata(prompts, axis) for axis in strata})
    if source is not None:
        battles = _decided_by(battles, source, file)
    if dimension is not None:
        parts = battles.by_dimension()
        battles = _chosen(battles, parts, dimension, ("dimension", "dimensions"), file)
    if judge_model is not None and (judges := _by_judge(battles)):
        battles = _chosen(battles, judges, judge_model, ("judge_model", "judges"), file)
    return battles


def _strata(prompts: Path, axis: str) -> dict[str, str]:
    """The stratum of each prompt that a record kept."""
    if not prompts.is_file():
        raise DataError(f"{prompts}: the record kept no copy of its prompts, which have the strata")
    found = {each.prompt_id: each.stratum(axis) for each in read_prompts(prompts)}
    of = {name: stratum for name, stratum in found.items() if stratum is not None}
    if not of:
        raise DataError(f"{prompts}: no prompt has a stratum on {axis!r}")
    return of


def battles_by_judge(path: str, root: Path, columns: Sequence[str] = ()) -> dict[str, BattleLog]:
    """The verdicts of each judge in a file: of its `columns` of outcomes, else of those judges that
    it names; nothing without a file.
    """
    if not path or columns:
        return {column: battles_of(path, root, winner=column) for column in columns}
    log = battles_of(path, root, source=Source.LLM_JUDGE)
    return _by_judge(log) or {battles_file(root / path).stem: log}


def judges_of(battles: BattleLog) -> list[str]:
    """The judges that the battles name."""
    return [] if battles.judge_model is None else [str(name) for name in battles.judge_model.names]


def arena_note(battles: BattleLog, given: str) -> str:
    """What is to be known about the votes: as the parameters say, else as the sessions do."""
    return given or ("simulated, no person voted" if battles.simulated() else "")


def arena_name(file: str, given: str, note: str = "") -> str:
    """The arena's name: as the parameters say, else its file's; with what must be said of it."""
    name = given or Path(file).name.partition(".")[0]
    return f"{name} ({note})" if note else name


def human_votes(file: str, root: Path, *, winner: str) -> BattleLog:
    """The human battles of a file; a judge's among them are left out."""
    return battles_of(file, root, winner=winner, source=Source.HUMAN).of_source(Source.HUMAN)


def voted(file: str, root: Path, *, winner: str, dimension: str) -> BattleLog:
    """The human battles of a file with their voters, who are its sessions where it names none."""
    battles = battles_of(file, root, winner=winner, dimension=dimension, source=Source.HUMAN)
    if battles.voter is None and battles.session is None:
        raise DataError(f"{file}: names no voters and no sessions")
    return battles if battles.voter is not None else replace(battles, voter=battles.session)


def labels_of(root: Path, judge: settings.JudgeSettings) -> BattleLog | None:
    """People's votes or gold labels that a judge is held against, without a judge's verdicts among
    them (unless there is nothing else); None where there are none.
    """
    if judge.labels is None:
        return None
    labels = battles_of(judge.labels, root, winner=judge.labels_winner)
    judged = labels.source is not None and labels.source.values() == str(Source.LLM_JUDGE)
    return labels if np.all(judged) or not np.any(judged) else labels.select(~judged)


def _decided_by(battles: BattleLog, source: Source, file: str | Path) -> BattleLog:
    """The battles that this source decided, or that do not say who did."""
    if battles.source is None:
        return battles
    other = Source.LLM_JUDGE if source is Source.HUMAN else Source.HUMAN
    mine = battles.source.values() != str(other)
    if not mine.any():
        raise DataError(f"{file}: all battles have source {str(other)!r}, none {str(source)!r}")
    return battles.select(mine)


def _by_judge(battles: BattleLog) -> dict[str, BattleLog]:
    column = battles.judge_model
    if column is None:
        return {}
    return {str(name): battles.select(column.values() == name) for name in column.names}


def _chosen(
    every: BattleLog,
    parts: Mapping[str, BattleLog],
    wanted: str,
    what: tuple[str, str],
    file: str | Path,
) -> BattleLog:
    """The part that is wanted; where nobody says which, there may be only one."""
    one, several = what
    named = ", ".join(name for name in parts if name) or "none"
    if wanted and wanted not in parts:
        raise DataError(f"{file}: no {one} {wanted!r}; found: {named}")
    if not wanted and len(parts) > 1:
        raise DataError(f"{file}: has several {several} ({named}); name one in {one}")
    return parts[wanted] if wanted else every
