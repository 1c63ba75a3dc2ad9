"""The public names and where they live: read by editors, by mypy, and by `__init__.py`."""

# ruff: noqa: I001 (grouped by what they are for)

# Battles
from arena_kit.battles.battle import Battle as Battle
from arena_kit.battles.log import BattleLog as BattleLog
from arena_kit.battles.readers.format import Columns as Columns
from arena_kit.files import DataError as DataError
from arena_kit.battles.battle import Outcome as Outcome
from arena_kit.battles.read import read_battles as read_battles
from arena_kit.battles.write import write_battles as write_battles

# Ratings and boards
from arena_kit.reporting.board import Board as Board
from arena_kit.rating.bradley_terry.method import BradleyTerry as BradleyTerry
from arena_kit.rating.glicko2 import Glicko2 as Glicko2
from arena_kit.rating.with_judge.hybrid import Hybrid as Hybrid
from arena_kit.rating.elo import PermutationElo as PermutationElo
from arena_kit.rating.base import RatingError as RatingError
from arena_kit.rating.claims import claims as claims
from arena_kit.rating.claims.power import fragility as fragility
from arena_kit.reporting.board import rate as rate
from arena_kit.runs.record.rate_files import rate_files as rate_files

# A workspace from a table of answers
from arena_kit.runs.settings.workspace import init_study as init_study

# A judged run: plan, judge, battles, board, record
from arena_kit.runs.tournament.plan import read_plan as read_plan
from arena_kit.runs.tournament.judge import judge as judge
from arena_kit.judging.verdicts.records import to_battles as to_battles
from arena_kit.runs.tournament.publish import sweep_elo as sweep_elo
from arena_kit.runs.tournament.publish import answer as answer
from arena_kit.runs.tournament.publish import publish as publish
from arena_kit.runs.tournament.adaptive import Rounds as Rounds

# How good a judge is
from arena_kit.judging.quality.judge import JudgeQuality as JudgeQuality
from arena_kit.runs.settings.files import read_gate as read_gate
from arena_kit.runs.tournament.judge_report import read_judges as read_judges
from arena_kit.runs.tournament.judge_report import measure_judges as measure_judges
from arena_kit.runs.tournament.judge_report import publish_judges as publish_judges

# A judged model among models that people voted on
from arena_kit.runs.placement.plan import read_placement as read_placement
from arena_kit.runs.placement.place import judge_placement as judge_placement
from arena_kit.runs.placement.place import place as place
from arena_kit.runs.placement.place import publish_placement as publish_placement

# An arena of votes under the validity policy
from arena_kit.matchmaking.arena import Arena as Arena
from arena_kit.validity.leaderboard import leaderboard as leaderboard
from arena_kit.runs.settings.files import read_policy as read_policy
from arena_kit.runs.policy import read_season as read_season
from arena_kit.runs.policy import publish_policy as publish_policy

# People's votes
from arena_kit.voting.live import LiveArena as LiveArena
from arena_kit.voting.review import ReviewStudy as ReviewStudy
from arena_kit.voting.widget import vote as vote
from arena_kit.validity.voters import voter_tests as voter_tests

# Records and reports
from arena_kit.site.open_run import open_run as open_run
from arena_kit import reporting as reporting

__version__: str
