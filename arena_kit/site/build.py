"""A site in a folder of its own: made from records, made again at will, nothing else touched."""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError, read_json, write_json, write_text
from arena_kit.site.overview import attempt, facts_of, overview
from arena_kit.site.pages import RunPage, boards_of, first_files, opponents_of, run_files
from arena_kit.site.reading import reading_of

#: Lists the files that a site made, which are all that making it again replaces or removes, and
#: keeps its nonce, which no text in a record can know when it is written.
LIST = ".arena_kit_site.json"
_NONCE = re.compile(r"[A-Za-z0-9_-]{22}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What became of a site: its first page, its runs, and those that have no board, with why."""

    index: Path
    pages: Sequence[RunPage]

    @property
    def without_board(self) -> dict[str, str]:
        return {page.run.id: page.no_board for page in self.pages if not page.boards}


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
    before, nonce = _made_before(out)
    read = [run_page(record, people) for record in records]
    read.sort(key=lambda page: (page.run.started_at, page.run.id), reverse=True)
    _refuse_twins(read)
    pages, made = _rendered(read, nonce)
    _refuse_foreign(out, before, made)
    write_json(out / LIST, {"files": sorted({*before, *made}), "nonce": nonce})
    for name, text in made.items():
        write_text(out / name, text)
    for name in before - made.keys():
        _remove(out, name)
    write_json(out / LIST, {"files": sorted(made), "nonce": nonce})
    return Built(index=out / "index.html", pages=pages)


def run_page(record: Path, people: BattleLog | None = None) -> RunPage:
    """All that a site shows of a record; what it cannot show it says."""
    run, report = overview(record), record / "report.html"
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
    return shown, dict(first_files(shown, nonce)) | made


def _refuse_twins(pages: Sequence[RunPage]) -> None:
    seen: dict[str, RunPage] = {}
    for page in pages:
        if (twin := seen.setdefault(page.slug, page)) is not page:
            raise DataError(
                f"{page.run.path}: a run of this name is shown already ({twin.run.path})"
            )


def _made_before(out: Path) -> tuple[set[str], str]:
    """The files of the site that a folder holds, and its nonce; a folder with other things is
    refused.
    """
    fresh = secrets.token_urlsafe(16)
    if not out.exists():
        return set(), fresh
    if not out.is_dir():
        raise DataError(f"{out}: a site needs a folder, and this is a file")
    if not any(out.iterdir()):
        return set(), fresh
    if not (out / LIST).is_file():
        raise DataError(f"{out}: holds files of its own; choose a new or empty folder, or a site's")
    values = read_json(out / LIST)
    kept = str(values.get("nonce")) if isinstance(values, dict) else ""
    return _listed(values, out), kept if _NONCE.fullmatch(kept) else fresh


def _listed(values: object, out: Path) -> set[str]:
    names = values.get("files") if isinstance(values, dict) else None
    if not isinstance(names, list):
        raise DataError(f"{out / LIST}: expected an object with a list of files")
    for name in names:
        path = PurePosixPath(str(name))
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise DataError(f"{out / LIST}: {name!r} is not a file of this folder")
    return {str(name) for name in names}


def _refuse_foreign(out: Path, before: set[str], made: dict[str, str]) -> None:
    """Refuse where a file of the site would replace one that it did not make."""
    for name in made:
        path = out / name
        if path.is_symlink() or (path.exists() and name not in before):
            raise DataError(f"{path}: not made by arena-kit site; move it away first")


def _remove(out: Path, name: str) -> None:
    """Remove a file of an earlier site, and the folders that it leaves empty."""
    path = out / name
    path.unlink(missing_ok=True)
    for folder in path.parents:
        if folder == out or not folder.is_dir() or any(folder.iterdir()):
            return
        folder.rmdir()
