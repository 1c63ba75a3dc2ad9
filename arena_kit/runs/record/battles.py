"""The battles of a file or a run record: of one source, one dimension, one judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from arena_kit.battles.battle import Source
from arena_kit.battles.log import BattleLog
from arena_kit.battles.read import read_battles
from arena_kit.battles.readers.format import Columns
from arena_kit.files import DataError, file_in
from arena_kit.judging.pairs.prompts import read_prompts

if TYPE_CHECKING:
    from arena_kit.runs.settings.files import JudgeSettings


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


def labels_of(root: Path, judge: JudgeSettings) -> BattleLog | None:
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
