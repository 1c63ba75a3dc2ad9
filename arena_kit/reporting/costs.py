"""Tables about money: what a run would cost, and what it did cost."""

from __future__ import annotations

from collections.abc import Sequence

from arena_kit.judging.cost import Forecast, Spending, dollars
from arena_kit.judging.records import Judgment
from arena_kit.reporting.tables import Shown, facts

_FREE = {"judge": "runs in this process", "cost": "nothing"}


def forecast(found: Forecast | None) -> Shown:
    """Requests, tokens and dollars of a run before it starts."""
    if found is None:
        return facts(_FREE, name="forecast")
    return facts(forecast_rows(found), name="forecast")


def forecast_rows(found: Forecast) -> dict[str, str]:
    """A forecast in words."""
    return {
        "requests": f"{found.requests:,} to send, {found.answered:,} already answered",
        "input tokens": f"{found.system_tokens:,} of system texts (cacheable) and "
        f"{found.user_tokens:,} of user texts",
        "output tokens": f"{found.output_tokens:,}, thinking included",
        "all prompt-cache hits": dollars(found.usd_all_hits),
        "without prompt caching": dollars(found.usd_no_cache),
        "no prompt-cache hit": f"{dollars(found.usd_no_hits)} (held against max_cost_usd)",
        "at the very most": f"{dollars(found.usd_at_most)}, if every answer took all the tokens "
        "it is allowed",
        "how counted": f"{found.counted}; {found.assumed}",
        "prices": f"{found.model}: {found.priced}",
    }


def spending(found: Spending | None, judgments: Sequence[Judgment], cap: float = 0.0) -> Shown:
    """What a run paid, what the caches did for it, and what to know about either."""
    if found is None:
        return facts(_FREE, name="spending")
    verdicts = [v for j in judgments for v in (j.forward, j.backward)]
    reused = [v for v in verdicts if v.cached]
    rate = "–" if found.hit_rate is None else f"{found.hit_rate:.1%}"
    saved = found.usd_saved_by_prompt_cache
    rows = {
        "spent": f"{dollars(found.usd)} on {found.answers:,} answers",
        "from the ledger": f"{len(reused):,} verdicts at no cost now; they had cost "
        f"{dollars(sum(v.cost_usd for v in reused))}",
        "input tokens": f"{found.input_tokens:,} uncached, {found.written_tokens:,} written to "
        f"the prompt cache, {found.read_tokens:,} read from it",
        "output tokens": f"{found.output_tokens:,}, of them {found.thinking_tokens:,} thinking",
        "prompt-cache hit rate": f"{rate} of the cacheable tokens",
        "prompt caching": f"{'saved' if saved >= 0 else 'cost'} {dollars(abs(saved))}",
    }
    unanswered = sum(v.detail.startswith("no answer came") for v in verdicts)
    warnings = [found.warning] if found.warning else []
    if cap and found.usd > cap:
        warnings.append(
            f"This is more than max_cost_usd {cap:g}: answers were longer than forecast."
        )
    if unanswered:
        warnings.append(f"{unanswered} live calls had no answer and may have been billed as well.")
    if warnings:
        rows["warning"] = " ".join(warnings)
    return facts(rows, name="spending")
