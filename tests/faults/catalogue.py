"""Everything that the service does wrong, by name, as the emulator's fault script."""

from typing import Any

from tests.faults.service import ELSEWHERE

How = dict[str, Any]
Faults = tuple[How, ...]
#: Where a fault of creating strikes: the first pre-warming, the bulk, the first re-ask.
_WHERE = {"first": 0, "bulk": 2, "again": 3}
#: What becomes of requests inside a batch.
_ITEMS = "errored overloaded_errored expired canceled unknown_type message_null credit_errored"
#: Faults that one kind of the report stands for, wherever they strike.
_KINDS = {"redirect": "redirect", "usage": "odd usage", "page": "200 without an answer"}
#: Faults after which it is unknown whether a batch exists.
AMBIGUOUS = (
    *("create-drop-bulk", "create-drop_before-bulk", "create-500_after-first"),
    *("create-hang-bulk", "create-late-bulk", "list-lag-taken"),
)
#: The share of answers that are not a plain verdict.
SHARES = {
    "garbage": 0.12, "refuse_empty": 0.05, "refuse_text": 0.03, "thinking_only": 0.05,
    "lowercase": 0.05, "prose": 0.05, "tie": 0.1,
}  # fmt: skip
_ALL_SORTS = {"garbage": 0.3, "refuse_empty": 0.2, "thinking_only": 0.2, "prose": 0.2}
#: How the judge answers, all of it or most.
BEHAVIOURS: dict[str, How] = {
    "half_garbage": {"shares": {"garbage": 0.5}},
    "half_expired": {"expire_share": 0.5},
    "few_expired": {"expire_share": 0.1},
    "all_sorts": {"shares": _ALL_SORTS},
    **{
        name: {"behaviour": name}
        for name in ("reader", "refuse_empty", "refuse_text", "thinking_only", "garbage", "empty")
    },
}


def _kind(kind: str, **more: Any) -> How:
    return {"kind": kind, **more}


def _status(status: int, **more: Any) -> How:
    return _kind("status", status=status, **more)


def _one(site: str, how: How, after: int = 0) -> Faults:
    return ({"on": site, "after": after, **how},)


_PAGES = {"page": _kind("page", times=2), "page-json": _kind("json_page", times=2)}
_LIMITED = {"429": _status(429, retry_after=0.05)}
#: Kinds of creating a batch that leave open whether one exists.
_UNSURE: dict[str, How] = {
    "drop": _kind("drop"), "drop_before": _kind("drop_before"), "hang": _kind("hang", seconds=1.0),
    "page": _kind("page"), "page-json": _kind("json_page"), "late": _kind("late", seconds=0.5),
    **{str(status): _status(status) for status in (408, 409, 500, 503, 504, 529)},
    **{f"{s}_after": _kind("status_after", status=s) for s in (408, 500, 503, 504, 529)},
}  # fmt: skip
#: Kinds of creating a batch that certainly leave none.
_REFUSED: dict[str, How] = {
    **_LIMITED,
    "429_thrice": _status(429, times=3),
    **{kind: _kind(kind) for kind in ("credit", "spend_cap", "usage_limit")},
}
#: Kinds of looking at a batch.
_LOOKS: dict[str, How] = {
    "404": _kind("not_found", times=2), "404_long": _kind("not_found", times=12), **_LIMITED,
    "500": _status(500, times=3), "503": _status(503), "529": _status(529), "drop": _kind("drop"),
    "hang": _kind("hang", seconds=0.3), **_PAGES,
}  # fmt: skip
#: Kinds of reading results; the sixth 404 in a row ends the process.
_READS: dict[str, How] = {
    "truncate": _kind("truncate"), "truncate_early": _kind("truncate", share=0.1, times=3),
    "half_line": _kind("half_line"), "half_line_twice": _kind("half_line", share=0.3, times=2),
    "drop": _kind("drop"), "drop_before": _kind("drop_before"), "404": _kind("not_found"),
    "404_long": _kind("not_found", times=6), **_LIMITED, "500": _status(500), "529": _status(529),
    "hang": _kind("hang", seconds=1.0), "short": _kind("short"),
    "empty": _kind("short", share=0.0, times=2), **_PAGES,
}  # fmt: skip
#: Kinds of listing batches.
_LISTS: dict[str, How] = {
    "lag": _kind("list_lag", times=3, count=1), "500": _status(500, times=2), **_LIMITED,
    "drop": _kind("drop", times=2), "404": _kind("not_found"), **_PAGES,
}  # fmt: skip
#: Redirects to the same path at another address, before and after a batch was made.
_AWAY = {str(n): _kind("redirect", status=n, url=ELSEWHERE) for n in (301, 302, 303, 307, 308)}
_MADE = {f"{n}_after": _kind("redirect_after", status=n, url=ELSEWHERE) for n in (302, 303)}


def _tokens(number: str) -> str:
    """A usage of messages and of chat completions with this text for its prompt's tokens."""
    counts = {"input_tokens": number, "prompt_tokens": number}
    counts |= {"output_tokens": "1", "completion_tokens": "1"}
    return "{" + ",".join(f'"{name}":{text}' for name, text in counts.items()) + "}"


#: Texts that stand where a usage should: none of them says what an answer cost.
USAGES: dict[str, str] = {
    "infinite": _tokens("1e400"), "nan": _tokens("NaN"), "negative": _tokens("-1"),
    "text": _tokens('"12"'), "huge": _tokens("1" + 400 * "0"), "nested": 3000 * "[" + 3000 * "]",
    "list": "[]", "null": "null", "missing": "",
}  # fmt: skip
#: A create in doubt: taken or not.
_DOUBT = {kind: _one("create", _UNSURE[kind], after=2) for kind in ("drop", "500")}

FAULTS: dict[str, Faults] = {
    **{
        f"create-{name}-{where}": _one("create", how, after)
        for name, how in (_UNSURE | _REFUSED).items()
        for where, after in _WHERE.items()
        if where != "again" or name in ("drop", "429", "500_after", "credit")
    },
    "create-529-long": _one("create", _status(529, times=9)),
    # a create in doubt, and a list that does not help at once; three looks come before
    **{f"list-{n}-taken": _DOUBT["drop"] + _one("list", how, 3) for n, how in _LISTS.items()},
    **{f"list-{n}-not_taken": _DOUBT["500"] + _one("list", how, 3) for n, how in _LISTS.items()},
    **{f"retrieve-{name}": _one("retrieve", how, 3) for name, how in _LOOKS.items()},
    **{f"results-{name}": _one("results", how, 2) for name, how in _READS.items()},
    # a create in doubt, and results that do not tell at once whose the batch is
    **{f"look-{name}": _DOUBT["drop"] + _one("results", how, 2) for name, how in _READS.items()},
    # of all requests in the first batch, of some and of all in the bulk
    **{
        f"item-{kind}-{where}": _one("item", _kind(kind, share=share), after)
        for kind in _ITEMS.split()
        for where, share, after in (("first", 1.0, 0), ("some", 0.4, 2), ("all", 1.0, 2))
    },
    **{
        f"item-{kind}-always": _one("item", _kind(kind, share=0.6, times=9), 2)
        for kind in ("errored", "expired")
    },
    # calls before anything is spent
    **{
        f"{site}-{name}": _one(site, how)
        for site in ("models", "count_tokens")
        for name, how in (("529", _status(529)), ("drop", _kind("drop")))
    },
    # every call sent away to another address, where nothing may follow
    **{
        f"redirect-create-{name}-{where}": _one("create", how, _WHERE[where])
        for name, how in (_AWAY | _MADE).items()
        for where in ("first", "bulk")
    },
    **{
        f"redirect-{site}-{name}": _one(site, _AWAY[name], after)
        for site, after in (("retrieve", 3), ("results", 2), ("list", 2), ("models", 0))
        for name in ("302", "307", "308")
    },
    "redirect-results-307-twice": _one("results", _AWAY["307"] | {"times": 2}, 2),
    **{
        f"usage-{name}-{where}": _one("item", _kind("odd_usage", usage=usage, share=share), after)
        for name, usage in USAGES.items()
        for where, share, after in (("first", 1.0, 0), ("some", 0.4, 2))
    },
}
#: What goes wrong with a call that is answered at once; it strikes after so many good ones.
LIVE_FAULTS: dict[str, How] = {
    **{f"redirect-{name}": how for name, how in _AWAY.items()},
    "redirect-307-always": _AWAY["307"] | {"times": 30},
    **{f"usage-{name}": _kind("odd_usage", usage=text) for name, text in USAGES.items()},
    "page": _kind("page"), "page-json": _kind("json_page"), "page-always": _kind("page", times=30),
    "drop": _kind("drop"), "drop_before": _kind("drop_before"), "hang": _kind("hang", seconds=4.0),
    "429": _status(429, retry_after=0.05, times=3), "500": _status(500, times=3),
    "504_after": _kind("status_after", status=504), "credit": _kind("credit"),
}  # fmt: skip
#: Faults that hide a batch from the list or the account: a restored ledger cannot see through them.
HIDING = tuple(name for name in FAULTS if name.startswith("list-lag"))


def kind_of(name: str) -> str:
    """What a fault is reported as: its kind where that is one of its own, else where it strikes."""
    words = name.split("-")
    return next((kind for word, kind in _KINDS.items() if word in words), words[0])
