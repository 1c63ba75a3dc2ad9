"""What a run will cost, may cost and did cost, against sums done by hand."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from arena_kit.files import DataError
from arena_kit.judging.asking import cost
from arena_kit.judging.asking.cost import Budget, CostError, Estimator, Forecast, Spending
from arena_kit.judging.asking.judge_pairs import judge_pairs
from arena_kit.judging.judges.anthropic import AnthropicBatches, AnthropicMessages, client_of
from arena_kit.judging.judges.base import PaidJudge, Price, Result
from arena_kit.judging.ledger.ledger import Ledger, Sender
from arena_kit.judging.verdicts.records import Answer, Status
from arena_kit.runs.settings.files import read_prices
from arena_kit.runs.tournament.plan import Plan
from tests import samples
from tests.emulator import Emulator, Fault
from tests.samples import OPUS, TWO_DIMENSIONS, TWO_RUBRICS, batch_judge, judged_by
from tests.samples import options as ask_options

SONNET = Price(model="claude-sonnet-5-5", input=2, output=10, write=4, write_5m=2.5, read=0.2)
#: Three bytes a token, so that tokens can be counted by eye.
EYE = Estimator(tokens_per_byte=1 / 3, how="by eye")
Budgets = Callable[..., Budget]


def text(system: int, user: int) -> Any:
    """A request of a given length in tokens of three bytes."""
    shared = {"request_id": "text", "seed": None, "identity": b"{}", "pieces": ()}
    return SimpleNamespace(system="sys" * system, user="use" * user, **shared)


@pytest.fixture(scope="module")
def judges() -> dict[bool, PaidJudge]:
    client = client_of("sk-test", "http://127.0.0.1:9")
    shared: dict[str, Any] = {"client": client, "model": OPUS.model, "price": OPUS, "effort": ""}
    live = AnthropicMessages(**shared, max_tokens=1000, concurrency=1, per_minute=60)
    return {True: AnthropicBatches(**shared, max_tokens=1000), False: live}


@pytest.fixture
def budget(judges: dict[bool, PaidJudge], ledger: Ledger) -> Budgets:
    def made(output: int = 100, *, batch: bool = True, cap: float = 0.0) -> Budget:
        money: Any = {"expected_tokens": output, "cap_usd": cap}
        return Budget(judge=judges[batch], ledger=ledger, estimator=EYE, **money)

    return made


def test_a_mixed_usage_by_hand(workspace: Path) -> None:
    """By hand: 4 + 10 + 5 + 16 + 2 thousandths; the shipped prices are the documented ones."""
    usage = {
        "input_tokens": 1000, "output_tokens": 500, "cache_creation_input_tokens": 3000,
        "ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 2000,
        "cache_read_input_tokens": 10_000, "thinking_tokens": 400,
    }  # fmt: skip
    assert OPUS.usd(usage, batch=False) == pytest.approx(0.037, abs=1e-15)
    assert OPUS.usd(usage, batch=True) == pytest.approx(0.0185, abs=1e-15)
    assert OPUS.usd_uncached(usage, batch=False) == pytest.approx(0.066, abs=1e-15)
    assert OPUS.usd({}, batch=True) == 0.0
    found = read_prices(workspace / "params" / "prices.yaml")
    opus = found["claude-opus-5-5"]
    assert (opus.input, opus.output, opus.write_5m, opus.write, opus.read) == (4, 20, 5, 8, 0.2)
    factors = {(p.batch_factor, p.write / p.input, p.write_5m / p.input) for p in found.values()}
    assert (factors, (bool(opus.source), opus.date)) == ({(0.5, 2, 1.25)}, (True, "2026-11-14"))


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("currency", "EUR", "unknown key 'currency'; allowed: date, source, models"),
        ("models.claude-opus-5-5.outptu", 20, "unknown key 'models.claude-opus-5-5.outptu'"),
        ("models.claude-opus-5-5.output", -1, "greater than or equal to 0, got '-1'"),
        ("models.claude-opus-5-5.batch_factor", 2, "less than or equal to 1, got '2'"),
        ("models.new", {"input": 1}, "models.new.output: Field required"),
        ("date", "someday", "date: .*got 'someday'"),
    ],
)
def test_a_wrong_price_file_is_refused(workspace: Path, path: str, value: object, why: str) -> None:
    """A misspelt key, a negative price or a missing one is named together with what is allowed."""
    file = workspace / "params" / "prices.yaml"
    values = inner = yaml.safe_load(file.read_text())
    *parents, last = path.split(".")
    for name in parents:
        inner = inner[name]
    inner[last] = value
    file.write_text(yaml.safe_dump(values))
    with pytest.raises(DataError, match=f"prices.yaml: .*{why}"):
        read_prices(file)


TWO = [text(100, 10), text(100, 20)]


def test_a_forecast_of_two_requests_by_hand(budget: Budgets) -> None:
    """By hand: 100 shared tokens, 10 and 20 of their own; 12,870 requests as documented."""
    found = budget().forecast(TWO, answered=7)
    assert (found.requests, found.answered, found.model) == (2, 7, "claude-opus-5-5")
    assert (found.system_tokens, found.user_tokens, found.output_tokens) == (200, 30, 200)
    usd = {"all_hits": 4940, "no_cache": 4920, "no_hits": 5720, "at_most": 41_720}
    live = budget(batch=False).forecast(TWO)
    for name, millionths in usd.items():
        assert getattr(found, f"usd_{name}") == pytest.approx(millionths / 2 / 1e6, abs=1e-15)
        assert getattr(live, f"usd_{name}") == pytest.approx(millionths / 1e6, abs=1e-15)
    assert sum(budget().forecast_each(TWO)) == pytest.approx(found.usd_no_hits)
    assert budget().forecast([], answered=12).usd_no_hits == 0.0
    # without cache prices the worst case is plain input, not a free write
    plain = Price(model="own", input=1, output=2)
    own = budget(batch=False)
    found = replace(own, judge=replace(own.judge, price=plain)).forecast([text(100, 10)])  # type: ignore[type-var]
    assert found.usd_no_hits == found.usd_no_cache == pytest.approx((110 + 200) / 1e6, abs=1e-15)
    found = budget(600).forecast([text(1500, 1500)] * 12_870)
    assert found.usd_no_cache == pytest.approx(154.44, abs=1e-9)
    assert found.usd_no_hits == pytest.approx(193.05, abs=1e-9)
    one_write = 1500 * (8 - 0.2) / 2 / 1e6
    assert found.usd_all_hits == pytest.approx(117.7605 + one_write, abs=1e-9)


def test_tokens_are_counted_by_the_service_or_estimated(emulator: Emulator) -> None:
    """From 20 requests at most, unbilled; offline, or when counting fails, three bytes a token."""
    requests = TWO_RUBRICS.requests(TWO_DIMENSIONS)
    judge, local = batch_judge(emulator), "local estimate, 3 bytes a token"
    assert Estimator.of(judge, requests, ask=False).tokens_per_byte == pytest.approx(1 / 3)
    assert Estimator.of(batch_judge(emulator, lacks="A_KEY"), requests).how == local
    assert emulator.requests == []
    found = Estimator.of(judge, requests)
    assert found.tokens_per_byte == pytest.approx(1 / 3.2, rel=1e-3)
    assert found.how == "count_tokens on 20 of the requests, scaled by length"
    assert [row.path for row in emulator.requests] == ["/v1/messages/count_tokens"] * 20
    assert emulator.billing.accepted == []
    emulator.faults.add(Fault(on="count_tokens", kind="status", status=500))
    assert Estimator.of(judge, requests).how == local


def test_twenty_answers_say_better_how_long_one_is(emulator: Emulator, ledger: Ledger) -> None:
    """The expected length holds until twenty answers of this model exist; then their mean does."""
    judge = batch_judge(emulator)
    budget = Budget(judge=judge, ledger=ledger, estimator=EYE, expected_tokens=400, cap_usd=0)
    judged_by(judge, ledger)
    assert budget.output_tokens() == (400, "400 output tokens an answer assumed")
    rigour = [pair for pair in TWO_DIMENSIONS if pair.dimension == "rigour"]
    judge_pairs(rigour, TWO_RUBRICS, judge, ledger, options=ask_options())
    lengths = [row.counts.output for row in emulator.billing.rows]
    tokens, assumed = budget.output_tokens()
    assert (len(lengths), tokens) == (24, pytest.approx(sum(lengths) / 24, abs=1e-9))
    assert assumed.endswith("the mean of 24 earlier")
    assert replace(budget, purpose="generate").output_tokens()[0] == 400


def test_a_budget_allows_up_to_its_cap(budget: Budgets) -> None:
    """Up to its cap, for answers and verdicts together; a free judge any, a paid one needs one."""
    budget(cap=0.00286).allow(TWO, "first")
    with pytest.raises(CostError, match=r"^\$0.0029 are forecast .*: \$0.0029 \(2 requests to cl"):
        budget(cap=0.00285).allow(TWO, "first")
    free = replace(budget().judge, price=Price(model="own", input=0, output=0))  # type: ignore[type-var]
    replace(budget(), judge=free).allow(TWO, "first")
    parts = {"answers": budget().forecast(TWO), "verdicts": budget().forecast(TWO[:1])}
    cost.refuse_above_cap(parts, 0.00429, spent=0.00001)
    with pytest.raises(CostError, match=r"answers \$0.0029 .* and verdicts \$0.0014 "):
        cost.refuse_above_cap(parts, 0.00429, spent=0.00002)
    cost.refuse_without_cap([budget().judge], 1.0)
    with pytest.raises(DataError, match="claude-opus-5-5 must be paid: set max_cost_usd"):
        cost.refuse_without_cap([budget().judge], 0.0)


@pytest.mark.parametrize(("answered", "spent"), [(True, 1.0), (False, 0.00286)])
def test_spent_and_under_way(budget: Budgets, ledger: Ledger, answered: bool, spent: float) -> None:
    """Requests without a result yet count as much as those to be sent; another run's do not."""
    judge, sent = budget().judge, {str(n): text(1, 1) for n in range(2)}
    intent = ledger.plan(sent, Sender(judge, "judge", "first"), "batches")
    if answered:
        paid = Result(answer=Answer(request_id="text", status=Status.OK, cost_usd=0.5))
        ledger.record(intent, [(owed, paid) for owed in ledger.awaited(intent).values()], "first")
    budget(cap=spent + 0.00287).allow(TWO, "first")
    with pytest.raises(CostError, match=rf"^\${spent:.2f}\d* are spent or under way and \$0.0029"):
        budget(cap=spent + 0.00285).allow(TWO, "first")
    budget(cap=0.00286).allow(TWO, "second")


def answers(price: Price, n: int, hits: int) -> list[Answer]:
    """Answers with a prefix of 1,000 tokens, of which so many were read and the rest written."""
    tokens = [("cache_read_input_tokens", price.read)] * hits
    tokens += [("cache_creation_input_tokens", price.write)] * (n - hits)
    kept = [{"usage": {name: 1000}, "cost_usd": usd / 1000} for name, usd in tokens]
    return [Answer(request_id=str(i), status=Status.OK, **each) for i, each in enumerate(kept)]


@pytest.mark.parametrize(("price", "n", "even"), [(OPUS, 39, 20), (SONNET, 19, 10)])
def test_caching_pays_above_the_documented_hit_rate(price: Price, n: int, even: int) -> None:
    """2(1 - h) + 0.05h = 1 at h = 20/39 = 0.513, and with reads at a tenth at 10/19 = 0.526."""
    each = (answers(price, n, hits) for hits in (even - 1, even, even + 1))
    below, at, above = (Spending.of(some, price, batch=False) for some in each)
    assert at.hit_rate == pytest.approx({39: 0.513, 19: 0.526}[n], abs=5e-4)
    assert at.usd_saved_by_prompt_cache == pytest.approx(0, abs=1e-12)
    assert below.usd_saved_by_prompt_cache < 0 < above.usd_saved_by_prompt_cache
    assert below.warning.startswith("Prompt caching cost ")
    assert above.warning == ""


def test_a_rubric_too_short_to_be_cached_is_told(emulator: Emulator, ledger: Ledger) -> None:
    """Below the model's shortest prefix nothing is written, and that is said."""
    judged_by(batch_judge(emulator), ledger)
    spending = Spending.of(ledger.paid("first"), OPUS, batch=True)
    assert spending.hit_rate is None
    assert spending.warning.startswith("No prompt was cached")
    assert Spending.of([], OPUS, batch=True).warning == ""


def forecast(emulator: Emulator) -> dict[str, Any]:
    """What `arena-kit cost --json` prints for the headline with Claude."""
    words = ("--params", "params/headline_claude.yaml", "-p", "judge.base_url", emulator.base_url)
    done = samples.call("cost", "--json", *words)
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.stdout))


def test_cost_command(workspace: Path, emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key by length, nothing sent; with one the service counts, 15/16 of the estimate."""
    bank = [json.loads(line) for line in (workspace / "sample/prompts.jsonl").open()]
    gold = sum(1 for prompt in bank if prompt.get("gold_answer"))
    n_asked = (gold + 2 * len(bank)) * 12 + 18  # 6 pairs in 2 orders, 3 dimensions; canaries
    assert n_asked == 4548 + 18
    found = forecast(emulator)
    estimate = Forecast(**found["forecast"])
    assert (found["max_cost_usd"], (estimate.requests, estimate.answered)) == (90.0, (n_asked, 0))
    assert estimate.output_tokens == n_asked * 400
    prompt_tokens = estimate.system_tokens + estimate.user_tokens
    no_cache = (prompt_tokens * 4 + n_asked * 400 * 20) / 2 / 1e6
    assert estimate.usd_no_cache == pytest.approx(no_cache, abs=1e-4)
    assert estimate.usd_all_hits < estimate.usd_no_cache < estimate.usd_no_hits < 90
    assert emulator.requests == []
    monkeypatch.setenv("ANTHROPIC_API_KEY", samples.KEY)
    counted = Forecast(**forecast(emulator)["forecast"])
    assert counted.requests == n_asked
    for name in ("system_tokens", "user_tokens"):
        ratio = getattr(counted, name) / getattr(estimate, name)
        assert ratio == pytest.approx(15 / 16, rel=1e-3)
    assert {row.path for row in emulator.requests} == {"/v1/messages/count_tokens"}


def small_plan(emulator: Emulator, **changes: Any) -> Plan:
    shared = {"judge": "anthropic", "judge_model": "claude-opus-5-5", "limit_pairs": 2}
    shared |= {"base_url": emulator.base_url, "max_cost_usd": 5.0, "preflight": False}
    return samples.plan_of("pilot", **shared | changes)


def test_answers_kept(workspace: Path, emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a run, the same run is forecast at nothing; only `cost` has the service count."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", samples.KEY)
    plan = small_plan(emulator)
    assert plan.forecast.answered == 0
    assert "local estimate" in plan._repr_html_()
    assert not emulator.requests  # neither an attribute nor showing the plan asks anybody
    counted = plan.cost()
    assert "count_tokens" in counted._repr_html_()
    asked = plan.ask_options("first", lambda text: None)
    judge_pairs(plan.pairing.pairs, plan.material, plan.judge, plan.ledger, options=asked)
    after = small_plan(emulator).forecast
    assert (after.requests, after.answered, after.usd_no_hits) == (0, plan.forecast.requests, 0.0)
    assert plan.ledger.spent("first") == pytest.approx(emulator.billing.total_usd, abs=1e-12)


def test_a_run_that_spends_needs_a_cap_and_a_price(workspace: Path, emulator: Emulator) -> None:
    """Offline and a free server need no cap; an unpriced model is refused with those listed."""
    with pytest.raises(DataError, match="set max_cost_usd"):
        small_plan(emulator, max_cost_usd=0).refuse_without_cap()
    small_plan(emulator, max_cost_usd=0, offline=True).refuse_without_cap()
    free = {"judge": "openai_compatible", "judge_model": "own", "max_cost_usd": 0}
    small_plan(emulator, **free).refuse_without_cap()
    with pytest.raises(DataError, match=r"there is no price .*'claude-x'; .*claude-opus-5-5"):
        small_plan(emulator, judge_model="claude-x")
