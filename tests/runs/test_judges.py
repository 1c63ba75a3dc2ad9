"""The gate of whole runs, and judges side by side."""

from pathlib import Path
from typing import Any

import pytest

import arena_kit as ak
from arena_kit import DataError, publish_judges
from arena_kit.cli.records import show_board
from arena_kit.judging.judges.replay import ReplayJudge
from arena_kit.judging.quality.gate import Level, UnfitJudgeError
from arena_kit.judging.quality.judge import agree, cheapest
from arena_kit.reporting import judge_report
from arena_kit.runs.tournament.judge import Judgments
from arena_kit.runs.tournament.judge_report import JudgeComparison
from tests import samples
from tests.emulator import Emulator
from tests.samples import SMALL, edited, judgments_of, loaded, parameters, published, record_of

BASELINE, MODEL = "baseline/lexical-v1", "claude-sonnet-5-5"
#: Eight questions of six pairs: enough for every rule.
EIGHT = {"strata": {"open_recall": 4, "vignette": 4}, "n_perms": 20}
FEW: dict[str, Any] = {"strata": {"open_recall": 2, "vignette": 1}, "n_perms": 20}
JUDGES = ["gpt-4-0125-preview", "claude-3-opus-20240229", "gpt-3.5-turbo"]


@pytest.fixture(autouse=True)
def _fast(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tournament of two dimensions that asks as fast as it can."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-planted-0123456789abcdefghij")
    fast = {"judge__anthropic__per_minute": 100_000, "judge__anthropic__concurrency": 16}
    edited(workspace, **fast, dimensions__clinical_utility=None)


def paid(emulator: Emulator, **more: Any) -> dict[str, Any]:
    """Claude at the emulated service, answering at once."""
    return EIGHT | {
        "judge": "anthropic", "judge_model": MODEL, "base_url": emulator.base_url,
        "transport": "messages", "max_cost_usd": 50.0, "preflight": False, **more,
    }  # fmt: skip


def failed(judgments: Judgments) -> set[str]:
    gate = judgments.gate
    assert gate.level is Level.FAILED, gate.sentence
    return {f.measure.rule for f in gate.findings if f.level is Level.FAILED}


def measured(**given: Any) -> JudgeComparison:
    return ak.measure_judges(ak.read_judges(**parameters("judge_report", **given)))


def another_rubric(workspace: Path, name: str) -> None:
    rubric = workspace / "params" / "rubrics" / f"{name}.md"
    rubric.write_text(f"{rubric.read_text()}\nPrefer the calmer one.\n")


@pytest.mark.parametrize(
    ("behaviour", "rules"),
    [("first", {"flips"}), ("longer", {"length"}), ("refuse_text", {"readable"})],
)  # fmt: skip
def test_a_scripted_judge_fails_for_its_reason(
    workspace: Path, behaviour: str, rules: set[str]
) -> None:
    """Eight questions refuse one that counts words, one that names what stands first, and one that
    refuses; 0 of 8 leaves 31 % possible, so they do not yet tell that a rubric is ignored.
    """
    edited(workspace, dimensions__calibration=None)
    with Emulator(seed=1, behaviour=behaviour) as emulator:
        assert failed(judgments_of("pilot", **paid(emulator))) == rules


def test_a_judge_that_reads_is_not_failed_and_the_record_keeps_why(
    emulator: Emulator, capsys: pytest.CaptureFixture[str]
) -> None:
    """The emulator's reader keeps every rule that fails others."""
    judgments = judgments_of("pilot", **paid(emulator))
    gate, record = judgments.gate, published(judgments)
    assert gate.level is Level.CAUTION, gate.sentence
    assert any(f.measure.rule == "people" for f in gate.findings if not f.measure.n)
    kept = loaded(record.path / "judge_gate.json")
    assert {row["dimension"] for row in kept["measures"]} == {"factuality", "calibration", ""}
    short = {"level": "usable with caution", "sentence": gate.sentence}
    assert record.read()["judge_gate"] == short == {name: kept[name] for name in short}
    show_board(record.path)
    assert gate.sentence in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("wrong", ["gate", "labels"])
def test_wrong_files_are_refused_before_anything_is_asked(
    workspace: Path, emulator: Emulator, wrong: str
) -> None:
    """Rules and labels are read first: nobody pays for a judge that then cannot be measured."""
    edited(workspace, **{f"judge__{wrong}": "params/nothing_here.yaml"})
    with pytest.raises(DataError, match="nothing_here"):
        judgments_of("pilot", **paid(emulator))
    assert not emulator.requests
    assert not (workspace / "runs").exists()


def test_a_judge_barred_from_its_family_is_not_asked_about_it(workspace: Path) -> None:
    """No pair holds birch, which has no rating; without the judge's family nobody is barred."""
    families = {"birch": "ours", BASELINE: "ours", "aspen": "theirs"}
    edited(workspace, judge__families=families, judge__bar_own_family=True)
    judgments = judgments_of("pilot", **SMALL)
    plan, manifest = judgments.plan, published(judgments).read()
    assert not any("birch" in (p.entrant_a, p.entrant_b) for p in plan.pairing.pairs)
    assert manifest["dropped"]["own_family"] == {"factuality": 8 * 3, "calibration": 12 * 3}
    assert "birch" in manifest["unrated"]["calibration"]
    notes = ak.reporting.tournament_tables.pair_counts(plan.pairing, plan.prompts).notes
    assert "60 pairs of the judge's own family were excluded." in notes
    edited(workspace, judge__families={"birch": "ours"}, judge__bar_own_family=True)
    with pytest.raises(DataError, match=f"needs the family of the judge '{BASELINE}'"):
        judgments_of("pilot", **SMALL)


def test_a_judge_that_failed_its_pilot_is_paid_for_no_headline(workspace: Path) -> None:
    """`arena-kit run headline` exits 3 with the pilot's reason before anything is sent."""
    with Emulator(seed=1, behaviour="longer") as emulator:
        pilot = record_of("pilot", **paid(emulator))
        asked = len(emulator.requests)
        assert failed(judgments_of("headline", **paid(emulator)))
        given = paid(emulator, strata={"curated": 1})
        own = parameters("headline", **given)
        words = [w for n, v in (own | own.pop("overrides")).items() for w in ("-p", n, str(v))]
        done = samples.call("run", "headline", *words)
        assert done.exit_code == 3, done.output
        found = f"the pilot {pilot.path.name} found: The judge {MODEL} is not usable"
        assert found in " ".join(done.output.split())
        with pytest.raises(UnfitJudgeError):
            judgments_of("headline", **given)
        assert len(emulator.requests) == asked
        gate = judgments_of("headline", **given, allow_failed=True).gate
        assert f"This run was allowed, but {found}" in gate.sentence
        another_rubric(workspace, "calibration")
        judgments_of("headline", **given | {"strata": {"curated": 2}})


def test_a_judge_report_counts_in_the_gate_of_every_later_run(workspace: Path) -> None:
    """A pilot without canaries fails the judge that the report saw obey; another rubric does not,
    and a paid run is refused with the report's name.
    """
    edited(workspace, dimensions__factuality=None)
    with Emulator(seed=1, behaviour="obedient") as emulator:
        given = paid(emulator, strata={"curated": 2})
        report = measured(**{n: v for n, v in given.items() if n != "strata"}, limit_pairs=2)
        publish_judges(report)
        name = report.record.path.name
        gate = judgments_of("pilot", **given).gate
        assert "attack" in {f.measure.rule for f in gate.findings if f.level is Level.FAILED}
        assert gate.sentence.endswith(f"The full measurement of {name} is counted.")
        with pytest.raises(UnfitJudgeError, match=f"the judge report {name} found"):
            judgments_of("headline", **given | {"strata": {"curated": 3}})
        another_rubric(workspace, "calibration")
        assert name not in judgments_of("pilot", **given).gate.sentence


def test_the_embedded_judge_is_not_called_fit(workspace: Path) -> None:
    """It is usable with caution, and not usable on a text of the user's own under the same name."""
    assert judgments_of("pilot", **SMALL).gate.level is Level.CAUTION
    another_rubric(workspace, "factuality")
    judgments = judgments_of("pilot", **SMALL)
    assert failed(judgments) == {"rubric"}
    assert "the demo judge ignores the rubric on factuality" in judgments.gate.sentence


def test_a_placement_holds_its_judge_against_people() -> None:
    """Verdicts from a file and people's votes on the same battles, which tell no slot."""
    placed = samples.placed_model(model="dogwood", n_bootstraps=100)
    quality, gate = placed.verdicts.quality, placed.verdicts.gate
    (dimension,) = quality.dimensions
    assert quality.find("agreement", dimension).n > 100
    assert quality.find("flips", dimension).value is not None
    assert quality.find("slot_a", dimension).value is None
    assert ak.publish_placement(placed).read()["judge_gate"]["sentence"] == gate.sentence


def test_real_judges_of_one_file_side_by_side(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Chatzi et al.'s three judges; the demo judge has a row that says why it was not asked."""
    file = str(data / "chatbot_arena_27k" / "battles.csv.gz")
    report = measured(verdicts=file, columns=JUDGES, labels_winner="human")
    *judges, embedded = report.judges
    assert [each.gate.level for each in judges] == [Level.TRUSTED, Level.CAUTION, Level.FAILED]
    assert (embedded.judge, embedded.battles) == (BASELINE, None)
    assert embedded.source == f"not run: {file} has verdicts but no texts"
    folder = publish_judges(report).path
    said = loaded(folder / "answer.json")["said"]
    assert said == loaded(folder / "judges.json")["answer"]
    assert "not measured: readable, flips" in said[0]
    assert said[3].startswith(f"The judge {BASELINE} was not run")
    assert said[4] == "No price is known of a judge that passes."
    show_board(folder)
    lines = capsys.readouterr().out.replace("\n", " ")
    assert all(sentence in lines for sentence in said)


def test_records_are_compared_on_the_pairs_they_share(emulator: Emulator) -> None:
    """A paid judge and the embedded one, recorded apart, on the pairs of the smaller run."""
    claude = record_of("pilot", **paid(emulator, preflight=True, **FEW))
    own, other = (record_of("pilot", **FEW | {"strata": {name: 2}}) for name in FEW["strata"])
    report = measured(records=[str(claude.path), str(own.path)])
    first, second = report.judges
    assert (first.judge, second.judge) == (MODEL, BASELINE)
    assert first.n_verdicts == second.n_verdicts == 2 * 2 * 2 * 6
    rows = ReplayJudge.from_record(claude.path).judgments()
    assert sum(v.cost_usd for j in rows for v in j.verdicts) == pytest.approx(
        emulator.billing.total_usd - claude.read()["preflight"]["usd"]
    )
    assert agree(report.judges) is not None
    assert [each.gate.level for each in report.judges] == [Level.CAUTION, Level.CAUTION]
    assert cheapest(report.judges) is second  # alike by the gate, and free
    assert "Krippendorff's alpha" in str(judge_report.judges_table(report.judges))
    begun = {*own.path.parent.iterdir()}
    with pytest.raises(DataError, match="no pair was judged in all of"):
        measured(records=[str(own.path), str(other.path)])
    for path in (own.path / "verdicts").iterdir():
        path.write_text("")
    with pytest.raises(DataError, match="holds no verdict, so there is no judge to measure"):
        measured(records=[str(own.path)])
    assert {*own.path.parent.iterdir()} == begun


def test_a_paid_judge_stands_beside_the_embedded_one(emulator: Emulator) -> None:
    """The report asks both judges for all canaries and the pairs."""
    sources = ak.read_judges(**parameters("judge_report", **paid(emulator, preflight=True, **FEW)))
    assert sources.plan is not None
    assert sources.plan.forecast is not None
    assert not emulator.billing.rows
    report = ak.measure_judges(sources)
    first, second = report.judges
    assert (first.judge, second.judge, second.usd) == (MODEL, BASELINE, 0.0)
    assert first.canaries is not None
    assert first.seconds is not None
    for each in report.judges:
        assert {"canary", "attack"} <= {f.measure.rule for f in each.gate.findings}
    record = publish_judges(report)
    manifest, answer = record.read(), loaded(record.path / "answer.json")
    asked, ahead = 2 * 2 * 3 * 6 + first.canaries.requests, manifest["preflight"]["requests"]
    assert asked <= manifest["cost"]["forecast"]["requests"] <= asked + ahead
    assert manifest["cost"]["usd_spent"] == pytest.approx(emulator.billing.total_usd)
    assert len(emulator.billing.rows) == asked
    suite = loaded(record.path / "canary_suite.json")["measures"]
    assert len({row["stratum"] for row in suite if row["measure"] == "attacks_worked"}) == 1 + 10
    assert loaded(record.path / "judge_gate.json")["sentence"] == first.gate.sentence
    assert answer["said"][0] == first.gate.sentence
    assert answer["facts"]["labels"] == "sample/simulated_labels.csv.gz"


def test_a_record_of_hashes_says_what_it_leaves_out() -> None:
    """Its judge is measured; the embedded one has a row without battles that says why."""
    kept = record_of("pilot", **FEW, inputs="hashes").path
    for file in (kept / "verdicts").iterdir():
        file.write_text(file.read_text().replace(BASELINE, "other/judge"))
    report = measured(records=[str(kept)])
    other, embedded = report.judges
    assert (other.judge, other.n_verdicts) == ("other/judge", 2 * 2 * 3 * 6)
    assert (embedded.judge, embedded.battles) == (BASELINE, None)
    why = embedded.source.removeprefix("not run: ")
    assert why.startswith(f"{kept}: keeps only hashes of its inputs")
    assert report.answer().caveats == [
        f"Length bias, strata and rubric use were not measured: {why}."
    ]
