"""The files that a tournament reads, and what the record of a run keeps of them.

A record with copies stands alone: its battles can be read beside their texts, and its tournament
can be judged or rated again in any workspace.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from arena_kit.battles import images
from arena_kit.battles.content import turns_of
from arena_kit.battles.log import BattleLog
from arena_kit.battles.read import BattleTexts, read_battles
from arena_kit.files import DataError, file_hash, read_bytes, read_json, whole_file
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
        named = {*images.NAMES.findall(content)}
        for folder in (file.parent, *file.parents[1:2]):
            there = [path for path in (folder / images.FOLDER).glob("*.*") if path.is_file()]
            wanted = (p for p in there if p.name.encode() in named or file.suffix == ".parquet")
            found |= {f"{images.FOLDER}/{path.name}": path for path in wanted}
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
        turns=np.array([turns_of(responses[first]) for first, _ in cells], np.int32),
    )


def _cells(log: BattleLog) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """The model and the question of either side of each battle."""
    column = log.question_id
    asked = np.full(len(log), None, object) if column is None else column.values()
    for a, b, question in zip(log.a, log.b, asked, strict=True):
        yield (log.models[a], question), (log.models[b], question)
