"""Everything that the service does wrong, by name, as the emulator's fault script."""

from __future__ import annotations

from typing import Any

from tests.faults.service import ELSEWHERE, LATE

Faults = tuple[dict[str, Any], ...]

#: Where a fault of creating strikes: the first pre-warming, the bulk, the first re-ask.
_WHERE = {"first": 0, "bulk": 2, "again": 3}
#: Kinds of creating a batch that leave open whether one exists.
_UNSURE: dict[str, dict[str, Any]] = {
    "drop": {"kind": "drop"},
    "drop_before": {"kind": "drop_before"},
    "hang": {"kind": "hang", "seconds": 1.0},
    "page": {"kind": "page"},
    "page-json": {"kind": "json_page"},
    "late": {"kind": LATE, "seconds": 0.5},
    **{str(status): {"kind": "status", "status": status} for status in (408, 409, 500, 503)},
    **{str(status): {"kind": "status", "status": status} for status in (504, 529)},
    **{
        f"{status}_after": {"kind": "status_after", "status": status}
        for status in (408, 500, 503, 504, 529)
    },
}
#: Kinds of creating a batch that certainly leave none.
_REFUSED: dict[str, dict[str, Any]] = {
    "429": {"kind": "status", "status": 429, "retry_after": 0.05},
    "429_thrice": {"kind": "status", "status": 429, "times": 3},
    "credit": {"kind": "credit"},
    "spend_cap": {"kind": "spend_cap"},
    "usage_limit": {"kind": "usage_limit"},
}
#: Kinds of looking at a batch.
_LOOKS: dict[str, dict[str, Any]] = {
    "404": {"kind": "not_found", "times": 2},
    "404_long": {"kind": "not_found", "times": 12},
    "429": {"kind": "status", "status": 429, "retry_after": 0.05},
    "500": {"kind": "status", "status": 500, "times": 3},
    "503": {"kind": "status", "status": 503},
    "529": {"kind": "status", "status": 529},
    "drop": {"kind": "drop"},
    "hang": {"kind": "hang", "seconds": 0.3},
    "page": {"kind": "page", "times": 2},
    "page-json": {"kind": "json_page", "times": 2},
}
#: Kinds of reading results; the sixth 404 in a row ends the process.
_READS: dict[str, dict[str, Any]] = {
    "truncate": {"kind": "truncate"},
    "truncate_early": {"kind": "truncate", "share": 0.1, "times": 3},
    "half_line": {"kind": "half_line"},
    "half_line_twice": {"kind": "half_line", "share": 0.3, "times": 2},
    "drop": {"kind": "drop"},
    "drop_before": {"kind": "drop_before"},
    "404": {"kind": "not_found"},
    "404_long": {"kind": "not_found", "times": 6},
    "429": {"kind": "status", "status": 429, "retry_after": 0.05},
    "500": {"kind": "status", "status": 500},
    "529": {"kind": "status", "status": 529},
    "hang": {"kind": "hang", "seconds": 1.0},
    "short": {"kind": "short"},
    "empty": {"kind": "short", "share": 0.0, "times": 2},
    "page": {"kind": "page", "times": 2},
    "page-json": {"kind": "json_page", "times": 2},
}
#: Redirects to the same path at another address.
_SENT_AWAY: dict[str, dict[str, Any]] = {
    str(status): {"kind": "redirect", "status": status, "url": ELSEWHERE}
    for status in (301, 302, 303, 307, 308)
}
_TAKEN_AND_SENT_AWAY: dict[str, dict[str, Any]] = {
    f"{status}_after": {"kind": "redirect_after", "status": status, "url": ELSEWHERE}
    for status in (302, 303)
}


def _tokens(number: str) -> str:
    """A usage of messages and of chat completions with this text for its prompt's tokens."""
    counts = {"input_tokens": number, "prompt_tokens": number}
    counts |= {"output_tokens": "1", "completion_tokens": "1"}
    return "{" + ",".join(f'"{name}":{text}' for name, text in counts.items()) + "}"


#: Texts that stand where a usage should: none of them says what an answer cost.
USAGES: dict[str, str] = {
    "infinite": _tokens("1e400"),
    "nan": _tokens("NaN"),
    "negative": _tokens("-1"),
    "text": _tokens('"12"'),
    "huge": _tokens("1" + 400 * "0"),
    "nested": 3000 * "[" + 3000 * "]",
    "list": "[]",
    "null": "null",
    "missing": "",
}
#: What becomes of requests inside a batch: of all in the first one, of some in the bulk.
_ITEMS: tuple[str, ...] = (
    "errored",
    "overloaded_errored",
    "expired",
    "canceled",
    "unknown_type",
    "message_null",
)
_ITEMS += ("credit_errored",)


def _one(site: str, how: dict[str, Any], after: int = 0) -> Faults:
    return ({"on": site, "after": after, **how},)


def _creating() -> dict[str, Faults]:
    return {
        f"create-{name}-{where}": _one("create", how, after)
        for name, how in (_UNSURE | _REFUSED).items()
        for where, after in _WHERE.items()
        if where != "again" or name in ("drop", "429", "500_after", "credit")
    } | {"create-529-long": _one("create", {"kind": "status", "status": 529, "times": 9})}


def _listing() -> dict[str, Faults]:
    """A create in doubt, and a list that does not help at once; three looks come before."""
    doubt = _one("create", _UNSURE["drop"], after=2)
    nothing = _one("create", _UNSURE["500"], after=2)
    ways: dict[str, dict[str, Any]] = {
        "lag": {"kind": "list_lag", "times": 3, "count": 1},
        "500": {"kind": "status", "status": 500, "times": 2},
        "429": {"kind": "status", "status": 429, "retry_after": 0.05},
        "drop": {"kind": "drop", "times": 2},
        "404": {"kind": "not_found"},
        "page": {"kind": "page", "times": 2},
        "page-json": {"kind": "json_page", "times": 2},
    }
    taken = {f"list-{name}-taken": doubt + _one("list", how, 3) for name, how in ways.items()}
    return taken | {f"list-{n}-not_taken": nothing + _one("list", h, 3) for n, h in ways.items()}


def _looking() -> dict[str, Faults]:
    """A create in doubt, and results that do not tell at once whose the batch is."""
    doubt = _one("create", _UNSURE["drop"], after=2)
    return {f"look-{name}": doubt + _one("results", how, after=2) for name, how in _READS.items()}


def _redirects() -> dict[str, Faults]:
    """Every call sent away to another address, where nothing may follow."""
    created = {
        f"redirect-create-{name}-{where}": _one("create", how, _WHERE[where])
        for name, how in (_SENT_AWAY | _TAKEN_AND_SENT_AWAY).items()
        for where in ("first", "bulk")
    }
    looked = {
        f"redirect-{site}-{name}": _one(site, _SENT_AWAY[name], after)
        for site, after in (("retrieve", 3), ("results", 2), ("list", 2), ("models", 0))
        for name in ("302", "307", "308")
    }
    twice = {"redirect-results-307-twice": _one("results", _SENT_AWAY["307"] | {"times": 2}, 2)}
    return created | looked | twice


def _usages() -> dict[str, Faults]:
    where = {"first": (1.0, 0), "some": (0.4, 2)}
    return {
        f"usage-{name}-{place}": _one(
            "item", {"kind": "odd_usage", "usage": usage, "share": share}, after
        )
        for name, usage in USAGES.items()
        for place, (share, after) in where.items()
    }


def _live() -> dict[str, dict[str, Any]]:
    """What goes wrong with a call that is answered at once."""
    return {
        **{f"redirect-{name}": how for name, how in _SENT_AWAY.items()},
        "redirect-307-always": _SENT_AWAY["307"] | {"times": 30},
        **{f"usage-{name}": {"kind": "odd_usage", "usage": text} for name, text in USAGES.items()},
        "page": {"kind": "page"},
        "page-json": {"kind": "json_page"},
        "page-always": {"kind": "page", "times": 30},
        "drop": {"kind": "drop"},
        "drop_before": {"kind": "drop_before"},
        "hang": {"kind": "hang", "seconds": 4.0},
        "429": {"kind": "status", "status": 429, "retry_after": 0.05, "times": 3},
        "500": {"kind": "status", "status": 500, "times": 3},
        "504_after": {"kind": "status_after", "status": 504},
        "credit": {"kind": "credit"},
    }


def _items() -> dict[str, Faults]:
    faults = {}
    for kind in _ITEMS:
        faults[f"item-{kind}-first"] = _one("item", {"kind": kind, "share": 1.0})
        faults[f"item-{kind}-some"] = _one("item", {"kind": kind, "share": 0.4}, after=2)
        faults[f"item-{kind}-all"] = _one("item", {"kind": kind, "share": 1.0}, after=2)
    for kind in ("errored", "expired"):
        faults[f"item-{kind}-always"] = _one("item", {"kind": kind, "share": 0.6, "times": 9}, 2)
    return faults


def _preparing() -> dict[str, Faults]:
    """Calls before anything is spent."""
    return {
        f"{site}-{name}": _one(site, how)
        for site in ("models", "count_tokens")
        for name, how in (("529", {"kind": "status", "status": 529}), ("drop", {"kind": "drop"}))
    }


FAULTS: dict[str, Faults] = {
    **_creating(),
    **_listing(),
    **{f"retrieve-{name}": _one("retrieve", how, after=3) for name, how in _LOOKS.items()},
    **{f"results-{name}": _one("results", how, after=2) for name, how in _READS.items()},
    **_looking(),
    **_items(),
    **_preparing(),
    **_redirects(),
    **_usages(),
}
#: The same of live calls, by name; they strike the call after so many good ones.
LIVE_FAULTS: dict[str, dict[str, Any]] = _live()
#: Faults that one kind of the report stands for, wherever they strike.
_KINDS = {"redirect": "redirect", "usage": "odd usage", "page": "200 without an answer"}
#: Faults after which it is unknown whether a batch exists.
AMBIGUOUS: tuple[str, ...] = (
    "create-drop-bulk",
    "create-drop_before-bulk",
    "create-500_after-first",
)
AMBIGUOUS += ("create-hang-bulk", "create-late-bulk", "list-lag-taken")
#: Faults that hide a batch from the list or the account: a restored ledger cannot see through them.
HIDING = tuple(name for name in FAULTS if name.startswith("list-lag"))


def kind_of(name: str) -> str:
    """What a fault is reported as: its kind where that is one of its own, else where it strikes."""
    words = name.split("-")
    return next((kind for word, kind in _KINDS.items() if word in words), words[0])


#: How the judge answers, all of it or most.
BEHAVIOURS: dict[str, dict[str, Any]] = {
    "half_garbage": {"shares": {"garbage": 0.5}},
    "half_expired": {"expire_share": 0.5},
    "few_expired": {"expire_share": 0.1},
    "all_sorts": {
        "shares": {"garbage": 0.3, "refuse_empty": 0.2, "thinking_only": 0.2, "prose": 0.2}
    },
    **{
        name: {"behaviour": name}
        for name in ("reader", "refuse_empty", "refuse_text", "thinking_only", "garbage", "empty")
    },
}
