"""From settings to a judge that can be asked: models, prices, addresses and keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from arena_kit.files import DataError
from arena_kit.judging.judges.base import Judge, PaidJudge, Price
from arena_kit.judging.judges.replay import ReplayJudge
from arena_kit.runs.settings.files import (
    AnthropicSettings,
    ChatSettings,
    JudgeSettings,
    TournamentFile,
    read_prices,
)
from arena_kit.runs.settings.keys import read_key
from arena_kit.runs.settings.parameters import JudgeParams

Kind = Literal["anthropic", "openai_compatible"]
ANTHROPIC_KEY = "ANTHROPIC_API_KEY"
CHAT_KEY = "OPENAI_API_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A model to be asked over the network: where, how and with which key."""

    kind: Kind
    model: str
    transport: Literal["batches", "messages"] = "batches"
    base_url: str = ""
    key_variable: str = ""

    def judge(
        self,
        settings: AnthropicSettings | ChatSettings,
        prices: Mapping[str, Price],
        root: Path,
        *,
        verdict: bool = True,
        graded: bool = False,
    ) -> PaidJudge:
        """The judge, of `graded` verdicts or not, or the generator where no verdict is wanted."""
        shape = {"verdict": verdict, "graded": graded}
        if isinstance(settings, ChatSettings):
            return self._chat(settings, prices, root, shape)
        return self._claude(settings, prices, root, shape)

    def _claude(
        self,
        settings: AnthropicSettings,
        prices: Mapping[str, Price],
        root: Path,
        shape: Mapping[str, Any],
    ) -> PaidJudge:
        from arena_kit.judging.judges.anthropic import (
            AnthropicBatches,
            AnthropicMessages,
            client_of,
        )

        variable = self.key_variable or ANTHROPIC_KEY
        key = self._key(variable, root)
        client = client_of(key or "none", self.base_url or None)
        kind = AnthropicBatches if self.transport == "batches" else AnthropicMessages
        return kind(
            client=client,
            model=self.model,
            price=self.price(prices),
            lacks="" if key else variable,
            **shape,
            **settings.shared_with(kind),
        )

    def _chat(
        self,
        settings: ChatSettings,
        prices: Mapping[str, Price],
        root: Path,
        shape: Mapping[str, Any],
    ) -> PaidJudge:
        from arena_kit.judging.judges.openai_compatible import ChatJudge

        if not self.base_url:
            raise DataError(
                "an openai_compatible model needs judge.base_url, such as http://127.0.0.1:8000/v1"
            )
        key = self._key(self.key_variable or CHAT_KEY, root)
        return ChatJudge(
            base_url=self.base_url,
            model=self.model,
            price=self.price(prices, keyless=key is None),
            api_key=key,
            **shape,
            **settings.shared_with(ChatJudge),
        )

    def _key(self, variable: str, root: Path) -> str | None:
        """The key, which is not sent in the clear to another machine."""
        key = read_key(variable, root)
        if key and self.base_url.startswith("http:") and not _is_here(self.base_url):
            raise DataError(f"the key in {variable} would go unencrypted to {self.base_url}")
        return key

    def price(self, prices: Mapping[str, Price], *, keyless: bool = False) -> Price:
        """The model's price; one served from this machine without a key is free unless it is
        listed.
        """
        if self.model in prices:
            return prices[self.model]
        if self.kind == "openai_compatible" and keyless and _is_here(self.base_url):
            return Price(model=self.model, input=0, output=0, source="served from this machine")
        raise DataError(
            f"no price is known for the model {self.model!r}; add it to the price file "
            f"(0 for a server of your own); listed: {', '.join(prices)}"
        )


def make_judge(mode: str, params: JudgeParams, tournament: TournamentFile, root: Path) -> Judge:
    """The judge that a run's parameters name."""
    if params.judge == "anthropic" or params.judge == "openai_compatible":  # noqa: PLR1714
        model = _paid_model(mode, params, tournament.judge)
        backend = Backend(kind=params.judge, model=model, **tournament.judge.shared_with(Backend))
        prices = read_prices(root / tournament.prices)
        settings, graded = paid_settings(params.judge, tournament.judge), tournament.judge.graded
        return backend.judge(settings, prices, root, graded=graded)
    if params.judge == "replay":
        return _replay(params, root / tournament.judge.replay_from, root)
    baseline = tournament.judge.baseline
    if params.judge_model not in ("", baseline.model):
        raise DataError(
            f"judge 'baseline' is the model {baseline.model!r}, not {params.judge_model!r}"
        )
    return baseline


def _paid_model(mode: str, params: JudgeParams, settings: JudgeSettings) -> str:
    """The model that the parameters name, else the tournament file's for this notebook."""
    role = "pilot_model" if mode == "pilot" else "headline_model"
    model = params.judge_model or str(getattr(settings, role))
    if model in ("", settings.baseline.model):
        came = f"it is {model!r}, which is the embedded judge" if model else "there is none"
        raise DataError(
            f"judge {params.judge!r} needs a model, as judge_model or as judge.{role} in "
            f"{params.tournament}; {came}"
        )
    return model


def paid_settings(kind: str, settings: JudgeSettings) -> AnthropicSettings | ChatSettings:
    """The settings that belong to a kind of paid judge."""
    return settings.anthropic if kind == "anthropic" else settings.openai_compatible


def _replay(params: JudgeParams, recording: Path, root: Path) -> ReplayJudge:
    if recording == root:
        raise DataError("judge 'replay' needs judge.replay_from, a record or a verdicts file")
    judge = ReplayJudge.from_record(recording)
    if params.judge_model not in ("", judge.model):
        raise DataError(f"the recording is by {judge.model!r}, not {params.judge_model!r}")
    return judge


def _is_here(address: str) -> bool:
    host = urlsplit(address).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
