"""The review of voters, from a battles file or a vote store to a record. The notebook's door.

Nothing is removed here: that takes `VoteStore.remove`, or `arena-kit votes remove`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError, file_hash, write_json, write_text
from arena_kit.rating.base import RatingError
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.reporting import vote_review
from arena_kit.reporting.answer import FILE as ANSWER_FILE
from arena_kit.reporting.answer import RunAnswer
from arena_kit.reporting.board import board_of
from arena_kit.reporting.vote_review import Boards
from arena_kit.runs.record.inputs import arena_name, arena_note, battles_file, keep_inputs, voted
from arena_kit.runs.record.record import Record, find_root
from arena_kit.runs.settings.files import validated
from arena_kit.runs.settings.parameters import ReviewParams
from arena_kit.validity.voters import Floats, VoterTests, voter_tests

if TYPE_CHECKING:
    from arena_kit.reporting.figures import Plot
    from arena_kit.voting.records import Ticket
    from arena_kit.voting.store import VoteStore
    from arena_kit.voting.texts import ArenaTexts

MODE = "vote_review"
_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReviewedVotes:
    """Votes to be reviewed: battles with their voters, how long each was looked at and how many
    words were shown (None where nobody kept that), and the lines of the log of removals.
    """

    battles: BattleLog
    where: str
    seconds: Floats | None = None
    words: Floats | None = None
    stored: bool = False
    removed: int = 0
    log: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of_store(
        cls, store: VoteStore, texts: ArenaTexts | None = None, dimension: str = ""
    ) -> ReviewedVotes:
        """The votes of a store that count, on the dimension where it has several; `texts` tell how
        much there was to read.
        """
        from arena_kit.voting.export import battle_log

        with store.reading() as transaction:
            asked = transaction.arena.dimensions if transaction.arena else ()
        if dimension not in asked if dimension else len(asked) > 1:
            named = ", ".join(asked) or "none"
            raise DataError(f"{store.address}: name one of its dimensions ({named})")
        votes = [v for v in store.votes() if dimension in ("", v.ticket.dimension)]
        kept = [vote for vote in votes if not vote.removed and vote.choice.outcome is not None]
        texts = texts and texts.on(asked)
        if not kept:
            raise DataError(f"{store.address}: holds no vote that counts yet")
        return cls(
            battles=battle_log(kept),
            where=store.address,
            stored=True,
            seconds=np.array([vote.seconds for vote in kept], float),
            words=None if texts is None else _words(texts, [vote.ticket for vote in kept]),
            removed=sum(vote.removed for vote in votes),
            log=tuple(line.cells for line in store.removals()),
        )

    def test_voters(self, level: float) -> VoterTests:
        """Every voter against the others."""
        return voter_tests(self.battles, level=level, seconds=self.seconds, words=self.words)

    def boards(self, left_out: Sequence[str]) -> Boards:
        """The board of all votes and the one without these voters."""
        method, battles = BradleyTerry(), self.battles
        names = () if battles.voter is None else battles.voter.values()
        mine = np.isin(np.asarray(names, object), list(left_out))
        try:
            after = method(battles.select(~mine))
        except RatingError:
            after = None
        return Boards(
            left_out=tuple(left_out), votes=int(mine.sum()), before=method(battles), after=after
        )


def _words(texts: ArenaTexts, tickets: list[Ticket]) -> Floats:
    """How many words both responses had that each ticket showed; NaN where they changed since."""
    counts = {key: len(text.split()) for key, text in texts.responses.items()}
    words = np.full(len(tickets), np.nan)
    for n, ticket in enumerate(tickets):
        sides = [(model, ticket.prompt) for model in (ticket.model_a, ticket.model_b)]
        if texts.digest_now(ticket.prompt, ticket.model_a, ticket.model_b) == ticket.digest:
            words[n] = sum(counts[side] for side in sides)
    return words


@dataclass(frozen=True, kw_only=True)
class ReviewStudy:
    """A review of voters in steps: `open` reads the votes, `test_voters`, `boards`, `publish`."""

    root: Path
    params: ReviewParams
    votes: ReviewedVotes = field(repr=False)
    record: Record

    @classmethod
    def open(cls, **parameters: Any) -> ReviewStudy:
        """Validate parameters, read the votes, then claim a record."""
        root = find_root()
        params = validated(ReviewParams, parameters, f"parameters of {MODE}")
        votes = read_votes(params, root)
        kept = params.model_dump(mode="json")
        if "://" in params.battles:  # an address may hold a password
            kept["battles"] = votes.where
        study = cls(root=root, params=params, votes=votes, record=Record.begin(MODE, kept, root))
        study._describe_votes()
        return study

    def show(self, plot: Plot) -> Plot:
        """Save a plot in the record, and return it."""
        return self.record.keep_figure(plot)

    def test_voters(self) -> VoterTests:
        """Every voter against the others, at the level of the parameters."""
        with self.record.failing():
            return self.votes.test_voters(self.params.level)

    def boards(self, tests: VoterTests) -> Boards:
        """The board with all votes, and without the voters of the parameters (default: flagged)."""
        with self.record.failing():
            known = {test.voter for test in tests.tests}
            for name in self.params.leave_out:
                if name not in known:
                    raise DataError(f"leave_out: no voter {name!r} was tested")
            return self.votes.boards(
                self.params.leave_out or [test.voter for test in tests.flagged]
            )

    def answer(self, tests: VoterTests, boards: Boards) -> RunAnswer:
        """Who is flagged, why, and how the board would change without them."""
        battles, removed = self.votes.battles, self.votes.removed
        before = f"; {removed:,} removed before" if removed else ""
        facts = {
            "arena": self._arena,
            "votes": f"{len(battles):,} in {self.votes.where}{before}",
            "models": f"{len(battles.models)}",
            "voters": f"{len(tests.tests):,} tested, {tests.too_few:,} with too few votes",
            "judge": "none: votes alone",
            "cost": "nothing",
        }
        found = vote_review.answer(tests, boards)
        return RunAnswer(
            brief=list(dict.fromkeys([found[0], found[-1]])),
            sentences=found,
            caveats=vote_review.caveats(tests),
            facts=facts | self.record.facts,
        )

    def publish(self, tests: VoterTests, boards: Boards) -> Record:
        """Write voters.json, the tables as CSV and the answer, and close the record."""
        with self.record.failing():
            folder, answer = self.record.path, self.answer(tests, boards)
            short = {"arena": self._arena, "answer": list(answer.brief)}
            write_json(folder / "voters.json", short | vote_review.to_dict(tests))
            write_text(folder / "flagged.csv", vote_review.flagged(tests).csv)
            write_text(folder / "boards.csv", vote_review.boards(boards).csv)
            write_json(folder / ANSWER_FILE, answer.as_dict())
            after = {"without_voters": {"": boards.after}} if boards.after else {}
            board = board_of({"": boards.before}, {"": self.votes.battles}, beside=after)
            board.model_copy(update={"title": self._arena}).write(folder)
            counts = {"tested": len(tests.tests), "flagged": len(tests.flagged)}
            self.record.update(voters=counts)
        return self.record.close()

    @property
    def _arena(self) -> str:
        """The arena's name with its note."""
        note = arena_note(self.votes.battles, self.params.note)
        return arena_name(self.votes.where, self.params.arena, note)

    def _describe_votes(self) -> None:
        """Keep in the record which votes these are."""
        params = self.params
        known: dict[str, Any] = {"n": len(self.votes.battles), "where": self.votes.where}
        if not self.votes.stored:
            file = battles_file(self.root / params.battles)
            suffixes = file.suffixes[-2:] if file.suffix == ".gz" else [file.suffix]
            with self.record.failing():
                keep_inputs(self.record, {f"battles{''.join(suffixes)}": file}, params.inputs)
            known["sha256"] = file_hash(file)
        self.record.update(arena=self._arena, battles=known)


def read_votes(params: ReviewParams, root: Path) -> ReviewedVotes:
    """The votes that the parameters name, of a vote store or any file of battles."""
    if not _is_store(params.battles, root):
        battles = voted(params.battles, root, winner=params.winner, dimension=params.dimension)
        return ReviewedVotes(battles=battles, where=params.battles)
    from arena_kit.voting.store import VoteStore
    from arena_kit.voting.texts import ArenaTexts

    is_file = "://" not in params.battles
    texts = ArenaTexts.of_tournament(root / params.tournament, root) if params.tournament else None
    where = root / params.battles if is_file else params.battles
    with VoteStore.open(where, create=False) as store:
        votes = ReviewedVotes.of_store(store, texts, params.dimension)
    return replace(votes, where=params.battles) if is_file else votes


def _is_store(battles: str, root: Path) -> bool:
    """Whether the votes are in a vote store: an address, or a SQLite file."""
    path = root / battles
    if "://" in battles or not path.is_file():
        return "://" in battles
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE
