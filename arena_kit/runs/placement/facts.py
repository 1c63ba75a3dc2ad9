"""What a placement says of itself in words: what was asked, what counted, and what was paid."""

from __future__ import annotations

from collections.abc import Mapping

from arena_kit.judging.asking.cost import dollars
from arena_kit.rating.base import some
from arena_kit.rating.with_judge.placement import Placed
from arena_kit.runs.placement.ask import ArenaRun
from arena_kit.runs.placement.plan import ArenaPlan
from arena_kit.runs.settings.parameters import PlacementParams
from arena_kit.runs.tournament.plan import is_lexical


def about_judge(judge_model: str, params: PlacementParams) -> str:
    """What is to be known about the judge beside its name."""
    if is_lexical(judge_model):
        return " (compares words, reads no rubric)"
    definition = params.definition
    own = definition is not None and definition.model == judge_model
    return " (judges its own answers, which judges tend to favour)" if own else ""


def asked(plan: ArenaPlan) -> dict[str, str]:
    """What is drawn from the arena, who answers and what the judge is asked."""
    sample, params, rubric = plan.sample, plan.params, plan.rubric
    source = f"read from {params.responses}"
    if params.definition is not None:
        source = f"made by {params.definition.model} ({params.definition.backend})"
    return {
        "answers": f"{len(sample.asked)}, {source}",
        "battles": f"{len(sample.battles)} against {len(sample.opponents)} opponents, and "
        f"{len(sample.shared)} that people decided too; drawn with seed {params.seed}",
        "requests": f"{2 * (len(sample.battles) + len(sample.shared))} verdicts, both orders",
        "rubric": f"{rubric.dimension} v{rubric.version}, reference: {rubric.reference}",
    }


def of_run(run: ArenaRun) -> dict[str, str]:
    """What became of the answers that were made here, and what the pre-flight said of the judge."""
    words = {}
    if made := run.record.read().get("answers"):
        counts = ", ".join(f"{n} {status}" for status, n in sorted(made["responses"].items()))
        failed = f"; {len(made['failed'])} could not be made" if made["failed"] else ""
        words["answers made"] = f"{counts or 'none'}{failed}"
    if run.canaries:
        words["canaries"] = " ".join(run.canaries.sentences())
    return words


def judged_battles(placed: Placed, n_verdicts: int, run: ArenaRun | None) -> str:
    """How many of the model's judged battles count, and what became of the others."""
    settled = n_verdicts - placed.unused["judged, of other models"]
    if run is None:
        return f"{placed.n_judged} of {settled} count"
    drawn = len(run.plan.sample.battles)
    lost = f", {drawn - settled} lack a usable verdict" if drawn > settled else ""
    return f"{placed.n_judged} of {drawn} drawn count{lost}"


def left_out(models: Mapping[str, int], least: int) -> str:
    """The models that have too few human battles to be rated."""
    if not models:
        return f"nobody (all have at least {least} human battles)"
    shown = some([f"{model} ({n})" for model, n in models.items()], 10)
    return f"{shown}: fewer than {least} human battles"


def worth(placed: Placed, *, wanted: bool) -> str:
    """What a verdict was taken to be worth; `wanted` says that this was to be calibrated."""
    fit = placed.calibration
    if fit is None and wanted:
        return "count in full, for want of battles that people and the judge both decided"
    if fit is None:
        return "count in full"
    return (
        f"a clear one is worth {fit.worth:.2f} of a win (temperature {fit.temperature:.2f}, "
        f"from {fit.n_shared} battles that people decided too)"
    )


def judge_error(placed: Placed) -> str:
    """How far the judge is from people."""
    error = placed.judge_error
    if error is None:
        return (
            "unknown: needs 5 other models that people and the judge compared on the same battles"
        )
    return f"{error.sd:.0f} points (SD), as {error.n_models} other models show that both rated"


def spent(run: ArenaRun | None) -> str:
    """What a run paid, and for what."""
    if run is None or not (parts := run.spending):
        return "nothing"
    each_part = [f"{dollars(one.usd)} on {one.answers:,} {name}" for name, one in parts.items()]
    unknown = run.record.read()["cost"]["usd_unknown"]
    aside = [f"about {dollars(unknown)} not told by the service"] if unknown else []
    return ", ".join([*each_part, *aside])
