"""The protocol: what a study fixes before its data, with a hash, and what a run did otherwise.

`freeze` writes what a plan would do as a file to share or register; a run whose tournament file
names it says in its report *as preregistered*, or each deviation. All that is compared stands in
the manifest of a record, so `check_record` needs the record alone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from arena_kit.files import DataError, file_in, read_json, write_json
from arena_kit.reporting.board import Board
from arena_kit.runs.record.record import open_record

#: The copy of a protocol in a record.
FILE = "protocol.json"
VERSION = 1
_SHOWN = 60
#: Parameters that say which pairs are judged; the last four are those of adaptive runs.
_SAMPLING = (
    "strata", "limit_pairs", "seed", "first_share", "round_share", "hopeless_below", "max_rounds",
)  # fmt: skip
_CLAIM = re.compile(r"^(?P<above>.+?) above (?P<below>.+?) on (?P<dimension>.+)$")


class Claim(NamedTuple):
    """A claim named beforehand: one model above another on a dimension."""

    above: str
    below: str
    dimension: str

    @classmethod
    def read(cls, text: str, entrants: Sequence[str], dimensions: Sequence[str]) -> Claim:
        """The claim in words; its names must be those of the tournament."""
        found = _CLAIM.match(text.strip())
        if found is None:
            raise DataError(f"claim {text!r}: expected 'MODEL above MODEL on DIMENSION'")
        claim = cls(*found.group("above", "below", "dimension"))
        for part, name in claim._asdict().items():
            what, known = ("entrant", entrants) if part != "dimension" else (part, dimensions)
            if name not in known:
                raise DataError(f"claim {text!r}: no {what} {name!r}; known: {', '.join(known)}")
        return claim

    def __str__(self) -> str:
        return f"{self.above} above {self.below} on {self.dimension}"


def fixed(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What a protocol fixes, from the manifest of a plan or a record."""
    tournament, parameters = manifest["tournament"], manifest["parameters"]
    judge, analysis = tournament["judge"], manifest["analysis"]
    made = tournament["generate"]
    turns = {n: each["turn"] for n, each in tournament["dimensions"].items() if each.get("turn")}
    shown = {"turns": turns, "reasoning": judge.get("reasoning") == "strip" and "strip"}
    return {
        **{name: value for name, value in shown.items() if value},
        "notebook": manifest["mode"],
        "prompts": manifest["prompt_set"]["sha256"],
        "sampling": {name: parameters.get(name) for name in _SAMPLING}
        | {"only_entrant": judge["only_entrant"]},
        "entrants": sorted(manifest["entrants"]),
        "responses": {
            name: made.get(name) or digest for name, digest in sorted(manifest["responses"].items())
        },
        "rubrics": {name: each["sha256"] for name, each in manifest["rubrics"].items()},
        "references": {n: each["reference"] for n, each in tournament["dimensions"].items()},
        "judge": manifest["judge"]
        | {name: judge[name] for name in ("graded", "max_attempts", "rejudge")},
        "gate": analysis["gate"],
        "exclusions": {
            "missing_responses": tournament["missing_responses"],
            "families": judge["families"] if judge["bar_own_family"] else {},
            **{name: analysis["rating"][name] for name in ("both_bad", "inconsistent", "ties")},
        },
        "clusters": analysis["rating"]["cluster"],
        "rating": {
            name: analysis["rating"][name] for name in ("prior", "prior_when", "covariates")
        },
        "margin": tournament["report"]["margin"],
        "looks": analysis["rating"]["looks"],
        "level": analysis["level"],
        "strata": tournament["report"].get("strata", []),
    }


def digest(fields: Mapping[str, Any], claims: Sequence[str]) -> str:
    """The hash of what is fixed and of the primary claims."""
    text = json.dumps([fields, list(claims)], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def freeze(manifest: Mapping[str, Any], claims: Sequence[str], path: Path) -> dict[str, Any]:
    """Write the protocol of a plan; a file that is there stays."""
    if path.exists():
        raise DataError(f"{path} exists; a protocol is frozen once: name another file")
    known = manifest["entrants"], manifest["dimensions"]
    named = [str(Claim.read(claim, *known)) for claim in claims]
    fields = json.loads(json.dumps(fixed(manifest)))
    protocol = {
        "protocol": VERSION,
        "frozen_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "sha256": digest(fields, named),
        "primary": named,
        "fixed": fields,
    }
    write_json(path, protocol)
    return protocol


def read_protocol(path: Path) -> dict[str, Any]:
    """A protocol; refused where its hash does not fit what it says."""
    protocol = read_json(path)
    if not isinstance(protocol, dict) or protocol.get("protocol") != VERSION:
        raise DataError(f"{path}: not a protocol of version {VERSION}")
    if digest(protocol["fixed"], protocol["primary"]) != protocol["sha256"]:
        raise DataError(f"{path}: changed after it was frozen, its hash does not fit")
    return protocol


def deviations(protocol: Mapping[str, Any], manifest: Mapping[str, Any]) -> list[str]:
    """What a run does otherwise than the protocol says, a sentence each."""
    return _differences("", protocol["fixed"], json.loads(json.dumps(fixed(manifest))))


def _differences(name: str, frozen: Any, here: Any) -> list[str]:
    if isinstance(frozen, dict) and isinstance(here, dict):
        out: list[str] = []
        for key in dict.fromkeys([*frozen, *here]):
            inner = f"{name}.{key}" if name else key
            out += _differences(inner, frozen.get(key), here.get(key))
        return out
    if frozen == here:
        return []
    return [f"{name} is {_short(here)}, the protocol says {_short(frozen)}"]


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def primary_claims(protocol: Mapping[str, Any], board: Board) -> Iterator[dict[str, Any]]:
    """How each primary claim ended: decided, reversed or open, at the level of the protocol for all
    of them at once.
    """
    share = 1 - (1 - protocol["fixed"]["level"]) / 2 / max(1, len(protocol["primary"]))
    for text in protocol["primary"]:
        above, below, dimension = Claim(*_CLAIM.match(text).groups())  # type: ignore[union-attr]
        known = board[dimension].above if dimension in board.names else {}
        chance = known.get(above, {}).get(below)
        state = "unresolved"
        if chance is not None and not 1 - share <= chance <= share:
            state = "decided" if chance > share else "reversed"
        yield {"claim": text, "state": state, "probability": chance}


def outcome(
    protocol: Mapping[str, Any], manifest: Mapping[str, Any], board: Board
) -> dict[str, Any]:
    """What a board says of its protocol: the hash, deviations, primary claims, and all of it in
    sentences.
    """
    other = deviations(protocol, manifest)
    ended = list(primary_claims(protocol, board))
    words = {"reversed": "the reverse is decided", "unresolved": "not decided"}
    number = protocol["sha256"][:12]
    if other:
        first = f"Deviations from the protocol {number}: {'; '.join(other)}."
    else:
        first = f"As preregistered (protocol {number}, frozen {protocol['frozen_at'][:10]})."
    primary = [f"Primary claim, {e['claim']}: {words.get(e['state'], 'decided')}." for e in ended]
    rest = "All other claims are exploratory."
    return {
        "sha256": protocol["sha256"],
        "deviations": other,
        "primary": ended,
        "sentences": [first, *primary, rest],
    }


def check_record(record: Path, file: Path | None = None) -> dict[str, Any]:
    """What a record says of its own protocol, or of another that is named."""
    protocol = read_protocol(file or file_in(record, FILE))
    manifest = open_record(record)
    if "analysis" not in manifest:
        raise DataError(f"{record}: a protocol is for tournaments, not {manifest.get('mode')!r}")
    return outcome(protocol, manifest, Board.read(record))
