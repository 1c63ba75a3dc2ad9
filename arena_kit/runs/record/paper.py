"""The kit for a paper, made from a record alone: tables, figures, methods text, references, a
reporting checklist and hashes. It says nothing that the record does not hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from arena_kit.files import DataError, file_hash, whole_file, write_json, write_text
from arena_kit.reporting.board import FILE as BOARD
from arena_kit.reporting.board import Board
from arena_kit.reporting.figures import Plot
from arena_kit.reporting.strata import plot_strata, strata_table
from arena_kit.reporting.tables import Table, latex_text, percent
from arena_kit.runs.record.record import open_record

#: What no record can answer.
_AUTHOR = "author to fill"
_KEY = re.compile(r" \[([a-z]+\d{4})\]")
#: Forms of a figure, and what of each would change from day to day.
_DATES = {"pdf": "CreationDate", "svg": "Date"}


class Paper(NamedTuple):
    """What a paper is made of: the record with its manifest and board."""

    record: Path
    manifest: Mapping[str, Any]
    board: Board

    @classmethod
    def of(cls, record: Path) -> Paper:
        """Read a finished record of a judged tournament."""
        manifest = open_record(record)
        if not (record / BOARD).is_file() or "analysis" not in manifest:
            kind = f"{manifest.get('mode')}, status {manifest.get('status')}"
            raise DataError(f"{record}: a paper needs a finished judged tournament, not {kind}")
        return cls(record, manifest, Board.read(record))

    def tables(self) -> dict[str, Table]:
        """Board, strata and judge quality."""
        strata = {"strata": strata_table(self.board)} if self._has_strata else {}
        return {"board": self.board.table(narrow=True), **strata, "judge": self._judge()}

    @property
    def _has_strata(self) -> bool:
        return any(each.strata for each in self.board.dimensions)

    def _judge(self) -> Table:
        """What was measured of the judge."""
        findings = self.board.gate.findings if self.board.gate else []
        rows = [
            {
                "dimension": each["dimension"] or "all",
                "measure": each["measure"].replace("_", " "),
                "value": percent(each["value"], ".1f"),
                "95 % interval": f"{percent(each['low'], '.1f')} to {percent(each['high'], '.1f')}",
                "n": each["n"],
            }
            for each in findings
            if each["value"] is not None
        ]
        sentence = [self.board.gate.sentence] if self.board.gate else []
        return Table(rows=rows, name="judge", notes=sentence, empty="Nothing was measured.")

    def figures(self) -> dict[str, Plot]:
        strata = {"strata": plot_strata(self.board)} if self._has_strata else {}
        return {"forest": self.board.plot(), "pairs": self.board.plot_pairs(), **strata}

    def methods(self) -> list[str]:
        """The methods paragraph, sentence by sentence; [key] marks a reference."""
        return [sentence for part in (self._design(), self._analysis()) for sentence in part]

    def _design(self) -> Iterator[str]:
        manifest, flow = self.manifest, self.flow()
        judge, settings = manifest["judge"]["model"], manifest["tournament"]["judge"]
        entrants, dimensions = len(manifest["entrants"]), ", ".join(manifest["dimensions"])
        yield (
            f"{entrants} models were compared in pairs on {flow['prompts judged']:,} of "
            f"{flow['prompts in the bank']:,} prompts ({dimensions})."
        )
        graded = " and by how much" if settings["graded"] else ""
        once = flow["pairs judged in one order"]
        or_one = f" or, for {once:,} pairs, in one" if once else ""
        yield (
            f"Each pair was judged by {judge} in both presentation orders{or_one} [zheng2023]; it "
            f"said which response is better{graded}. Its settings: "
            f"{_listed(manifest['judge']['settings'])}."
        )
        dropped = manifest["analysis"]["rating"]["inconsistent"] == "drop"
        yield (
            f"Of {flow['pairs judged']:,} pairs, the verdict changed with presentation order in "
            f"{flow['pairs inconsistent']:,}; these were "
            f"{'excluded' if dropped else 'counted as ties'}. "
            f"{flow['pairs excluded: incomplete']:,} were excluded because a verdict was missing."
        )
        if self.board.gate:
            yield self.board.gate.sentence
        if held := self.board.protocol:
            yield str(held["sentences"][0])

    def _analysis(self) -> Iterator[str]:
        rating = self.manifest["analysis"]["rating"]
        by = {"both": "question and voter", "battle": "single battles"}
        ties = (
            "half a win for each side"
            if rating["ties"] == "half"
            else "an outcome of its own [davidson1970]"
        )
        yield (
            "Ratings are Bradley–Terry strengths [bradley1952] on a scale where "
            f"{rating['scale']:g} points are odds of 10 to 1, centred at {rating['center']:g}; "
            f"a tie counts as {ties}."
        )
        yield (
            "95 % intervals are those of the cluster jackknife [bell2002], clustered by "
            f"{by.get(rating['cluster'], rating['cluster'])}, with Student's t for few clusters."
        )
        looks = rating["looks"]
        yield (
            "An order is called decided where the signed root of the clustered profile likelihood "
            f"[hauck1977] exceeds the studentized range [tukey1953] at level "
            f"{100 * self.manifest['analysis']['level']:g} % for all pairs at once "
            f"({looks} {'look' if looks == 1 else 'looks'})."
        )
        if self._has_strata:
            yield (
                "Ratings per stratum are partially pooled; deviations are tested for all cells at "
                "once [holm1979]."
            )
        if "elo" in self.board.beside:
            yield "Elo ratings [elo1978] are means over random orders."
        versions = self.manifest.get("versions") or {}
        shown = ", ".join(f"{name} {versions[name]}" for name in sorted(versions)[:12])
        yield f"Software: {shown}." if shown else "Software versions were not recorded."

    def flow(self) -> dict[str, int]:
        """The numbers of a flow diagram, as CONSORT asks for them."""
        manifest = self.manifest
        settled = manifest["counts"]["judgments"].values()
        verdicts = manifest["counts"]["verdicts"].values()
        kinds = ("winner", "tie", "inconsistent", "incomplete", "one_order")
        sums = {kind: sum(each.get(kind, 0) for each in settled) for kind in kinds}
        return {
            "prompts in the bank": manifest["bank_size"],
            "prompts judged": manifest["selected_prompt_count"],
            "prompts dropped: missing responses": len(manifest["dropped"]["prompts"]),
            "pairs judged": sum(sums.values()),
            "verdicts asked for": sum(sum(each.values()) for each in verdicts),
            "verdicts readable": sum(each.get("ok", 0) for each in verdicts),
            "pairs judged in one order": sums["one_order"],
            "pairs inconsistent": sums["inconsistent"],
            "pairs excluded: incomplete": sums["incomplete"],
            "pairs judged in both orders: a winner": sums["winner"],
            "pairs judged in both orders: a tie": sums["tie"],
        }

    def checklist(self) -> Table:
        """TRIPOD-LLM's items on evaluation, with the place in the record that answers each."""
        held = "protocol.json" if self.board.protocol else _AUTHOR
        strata = "board.json: dimensions[].strata" if self._has_strata else _AUTHOR
        answered = {
            "Models compared, with versions or settings": "manifest.json: entrants, responses",
            "Data: source and selection of prompts": "manifest.json: prompt_set, parameters.strata",
            "Reference answers and how they were made": _AUTHOR,
            "Who judged: model, version, settings": "manifest.json: judge",
            "Instructions to the judge": "inputs/rubrics",
            "Presentation order and blinding": "manifest.json: position_bias; verdicts/",
            "Agreement of the judge with people": "judge_gate.json",
            "Exclusions and missing verdicts": "manifest.json: counts, dropped",
            "Statistical methods and level": "manifest.json: analysis; methods.txt",
            "Subgroups (strata)": strata,
            "Preregistration and deviations": held,
            "Cost and computing": "manifest.json: cost, judging, versions",
            "Code and data availability": _AUTHOR,
            "Intended use, population and setting": _AUTHOR,
            "Ethics, funding, conflicts of interest": _AUTHOR,
        }
        answered |= {f"Flow: {name}": f"{n:,}" for name, n in self.flow().items()}
        rows = [{"item": item, "where in the record": where} for item, where in answered.items()]
        return Table(rows=rows, name="checklist", left=["where in the record"])


def write_paper(record: Path, folder: Path) -> list[Path]:
    """Write the kit into a folder and give its files; those that are there are replaced."""
    paper = Paper.of(record)
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    tables, figures, methods = paper.tables(), paper.figures(), paper.methods()
    checklist = paper.checklist()
    texts = {f"{n}.tex": table.latex for n, table in (*tables.items(), ("checklist", checklist))}
    texts |= {
        "tables.html": _page(tables),
        "methods.txt": " ".join(methods),
        "methods.tex": _cited(methods),
        "references.bib": _bibliography(methods),
        "checklist.md": checklist.markdown,
        "paper.tex": _document([*tables, "checklist"], [*figures]),
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    for name, plot in figures.items():
        for kind, dated in _DATES.items():
            with whole_file(folder / "figures" / f"{name}.{kind}") as part:
                plot.narrow().savefig(part, format=kind, metadata={dated: None})
    kept = [path for path in sorted(record.rglob("*")) if path.is_file() and path.name[0] != "."]
    hashes = {str(path.relative_to(record)): file_hash(path) for path in kept}
    card = {"record": record.name, "flow": paper.flow(), "sha256": hashes}
    write_json(folder / "data_card.json", card)
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items()) or "the defaults"


def _page(tables: Mapping[str, Table]) -> str:
    body = "".join(f"<h2>{name}</h2>{table.html}" for name, table in tables.items())
    return f"<!doctype html><meta charset='utf-8'><title>Tables</title>{body}\n"


def _cited(sentences: Sequence[str]) -> str:
    """The sentences as LaTeX, with their references."""
    parts = _KEY.split(" ".join(sentences))  # text, key, text, key, …
    cites = (rf"~\cite{{{part}}}" if n % 2 else latex_text(part) for n, part in enumerate(parts))
    return "".join(cites) + "\n"


def _bibliography(sentences: Sequence[str]) -> str:
    """The entries that the sentences name, and that of the checklist."""
    named = {*_KEY.findall(" ".join(sentences)), "gallifant2025"}
    text = (files("arena_kit") / "reporting" / "template" / "references.bib").read_text("utf-8")
    entries = text.strip().split("\n\n")
    return "\n\n".join(e for e in entries if e[e.index("{") + 1 : e.index(",")] in named) + "\n"


def _document(tables: Sequence[str], figures: Sequence[str]) -> str:
    """A document that holds everything, to look at and to copy from."""
    parts = [rf"\input{{{name}}}" for name in tables]
    parts += [rf"\par\includegraphics[width=3.4in]{{figures/{name}.pdf}}" for name in figures]
    head = ["[utf8]{inputenc}", "[margin=2cm]{geometry}", "{booktabs}", "{caption}", "{graphicx}"]
    uses = [rf"\usepackage{name}" for name in head]
    return "\n".join(
        [r"\documentclass{article}", *uses, r"\begin{document}", r"\input{methods}",
         r"\footnotesize\setlength{\tabcolsep}{3pt}", *parts,
         r"\bibliographystyle{plain}", r"\bibliography{references}", r"\end{document}", ""]
    )  # fmt: skip
