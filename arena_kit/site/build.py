"""A site in a folder of its own: made from records, made again at will, nothing else touched."""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError, file_hash, file_in, read_json, write_json, write_text
from arena_kit.site.overview import attempt, facts_of, overview
from arena_kit.site.pages import RunPage, boards_of, first_files, opponents_of, run_files
from arena_kit.site.reading import reading_of

#: Lists the files that a site made with hashes of their contents: what has another content, or
#: stands behind a link, is neither replaced nor removed.
LIST = ".arena_kit_site.json"


@dataclass(frozen=True, slots=True)
class Built:
    """What became of a site: its first page, and the runs that have no board, with why."""

    index: Path
    without_board: dict[str, str]


def build_site(records: Sequence[Path], out: Path, people: BattleLog | None = None) -> Built:
    """Make the site of some records in a folder, the newest run first.

    Parameters
    ----------
    records
        Folders of runs, of any notebook. One that cannot be shown is listed with the reason.
    out
        A new or empty folder, or one that holds a site.
    people
        Votes of people on the same prompts, to hold judges' verdicts against.
    """
    before, nonce = _made_before(out), secrets.token_urlsafe(16)
    read = [run_page(record, people) for record in records]
    read.sort(key=lambda page: (page.run.started_at, page.run.id), reverse=True)
    _refuse_twins(read)
    pages, made = _rendered(read, nonce)
    _refuse_foreign(out, before, made)
    hashes = {name: [hashlib.sha256(text.encode()).hexdigest()] for name, text in made.items()}
    either = {name: before.get(name, []) + hashes.get(name, []) for name in {*before, *made}}
    write_json(out / LIST, {"files": either})
    for name, text in made.items():
        write_text(out / name, text)
    for name in before.keys() - made.keys():
        _remove(out, name, before[name])
    write_json(out / LIST, {"files": hashes})
    without = {page.run.id: page.no_board for page in pages if not page.boards}
    return Built(out / "index.html", without)


def run_page(record: Path, people: BattleLog | None = None) -> RunPage:
    """All that a site shows of a record; what it cannot show it says."""
    run = overview(record)
    report, why = attempt(record, file_in, record, "report.html", otherwise=record)
    if why:  # a link, behind which anything may stand
        return RunPage(run=run, no_board=_without_folders(why, record))
    boards, no_board = attempt(record, boards_of, record, otherwise=[])
    reading, no_reading = attempt(record, reading_of, record, people, otherwise=None)
    if reading is not None:
        reading = replace(reading, no_texts=_without_folders(reading.no_texts, record))
    return RunPage(
        run=replace(run, why_not=_without_folders(run.why_not, record)),
        facts=attempt(record, facts_of, record, otherwise={})[0],
        boards=boards,
        reading=reading,
        opponents=attempt(record, opponents_of, record, reading, otherwise={})[0],
        report=report if report.is_file() else None,
        no_board=_without_folders(no_board, record),
        no_reading=_without_folders(no_reading, record),
    )


def _without_folders(sentence: str, record: Path) -> str:
    """A sentence for readers elsewhere, to whom the folders of this machine say nothing."""
    for folder in (record.resolve(), record):
        sentence = sentence.replace(f"{folder}: ", "this record ").replace(f"{folder}/", "")
    return sentence


def _rendered(pages: Sequence[RunPage], nonce: str) -> tuple[list[RunPage], dict[str, str]]:
    """The pages that can be shown, others with the reason alone, and all files of the site."""
    shown: list[RunPage] = []
    made: dict[str, str] = {}
    for page in pages:
        texts, why = attempt(page.run.path, run_files, page, nonce, otherwise={})
        made |= {f"{page.slug}/{name}": text for name, text in texts.items()}
        unshown = RunPage(run=page.run, no_board=_without_folders(why, page.run.path))
        shown.append(unshown if why else page)
    return shown, first_files(shown, nonce) | made


def _refuse_twins(pages: Sequence[RunPage]) -> None:
    seen: dict[str, RunPage] = {}
    for page in pages:
        if (twin := seen.setdefault(page.slug, page)) is not page:
            raise DataError(
                f"{page.run.path}: another run of this name is included ({twin.run.path})"
            )


def _made_before(out: Path) -> dict[str, list[str]]:
    """The files of the site that a folder holds, with the hashes that each may have; a folder with
    other things is refused.
    """
    if out.exists() and not out.is_dir():
        raise DataError(f"{out}: this is a file, and a site needs a folder")
    if not out.exists() or not any(out.iterdir()):
        return {}
    if not (out / LIST).is_file():
        raise DataError(f"{out}: holds files of its own; choose a new or empty folder, or a site's")
    values = read_json(out / LIST)
    files = values.get("files") if isinstance(values, dict) else None
    if not isinstance(files, dict) or not all(isinstance(each, list) for each in files.values()):
        raise DataError(
            f"{out / LIST}: expected files with their hashes; choose a new folder in place of a "
            "site that an earlier version made"
        )
    return files


def _refuse_foreign(out: Path, before: Mapping[str, list[str]], made: Mapping[str, str]) -> None:
    """Refuse where a file of the site stands elsewhere, or would replace one that it did not
    make.
    """
    here = out.resolve()
    for name in {*before, *made}:
        path = (out / name).resolve()
        if path != here / name or not path.is_relative_to(here):
            raise DataError(f"{out / name}: not a file of this folder")
    for name in made:
        path = out / name
        if path.exists() and not _known(path, before.get(name, [])):
            raise DataError(f"{path}: not made by arena-kit site; move it away first")


def _known(path: Path, hashes: list[str]) -> bool:
    return path.is_file() and file_hash(path) in hashes


def _remove(out: Path, name: str, hashes: list[str]) -> None:
    """Remove a file of an earlier site, and the folders that it leaves empty."""
    path = out / name
    if not _known(path, hashes):
        return
    path.unlink()
    for folder in path.parents:
        if folder == out or any(folder.iterdir()):
            return
        folder.rmdir()
