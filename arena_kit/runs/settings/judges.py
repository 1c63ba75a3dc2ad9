"""From settings to a judge that can be asked: models, prices, addresses and keys."""

import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from dotenv import dotenv_values

from arena_kit.files import DataError
from arena_kit.judging.judges.base import Batch, BatchJudge, Judge, PaidJudge, Price
from arena_kit.judging.judges.replay import ReplayJudge
from arena_kit.judging.ledger.ledger import Intent, Ledger
from arena_kit.runs.settings import files
from arena_kit.runs.settings.parameters import JudgeParams

Kind = Literal["anthropic", "openai_compatible"]
Prices = Mapping[str, Price]


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
        settings: files.AnthropicSettings | files.ChatSettings,
        prices: Prices,
        root: Path,
        *,
        verdict: bool = True,
        graded: bool = False,
    ) -> PaidJudge:
        """The judge, of `graded` verdicts or not, or the generator where no verdict is wanted."""
        own: dict[str, Any] = {"model": self.model, "verdict": verdict, "graded": graded}
        key = self._key(root)
        if isinstance(settings, files.ChatSettings):
            from arena_kit.judging.judges.openai_compatible import ChatJudge

            own |= settings.shared_with(ChatJudge)
            price = self.price(prices, keyless=key is None)
            return ChatJudge(base_url=self.base_url, price=price, api_key=key, **own)
        from arena_kit.judging.judges import anthropic

        batches = self.transport == "batches"
        kind = anthropic.AnthropicBatches if batches else anthropic.AnthropicMessages
        own |= settings.shared_with(kind) | {"lacks": "" if key else self._variable}
        client = anthropic.client_of(key or "none", self.base_url or None)
        return kind(client=client, price=self.price(prices), **own)

    @property
    def _variable(self) -> str:
        return self.key_variable or (
            files.ANTHROPIC_KEY if self.kind == "anthropic" else files.CHAT_KEY
        )

    def _key(self, root: Path) -> str | None:
        """The key, which is not sent in the clear to another machine."""
        if self.kind == "openai_compatible" and not self.base_url:
            raise DataError(
                "an openai_compatible model needs judge.base_url, such as http://127.0.0.1:8000/v1"
            )
        key = read_key(self._variable, root)
        if key and self.base_url.startswith("http:") and not _is_here(self.base_url):
            raise DataError(f"the key in {self._variable} would go unencrypted to {self.base_url}")
        return key

    def price(self, prices: Prices, *, keyless: bool = False) -> Price:
        """The model's price; one served from this machine without a key is free unless it is
        listed.
        """
        if self.model in prices:
            return prices[self.model]
        if self.kind == "openai_compatible" and keyless and _is_here(self.base_url):
            return Price(model=self.model, input=0, output=0, source="served from this machine")
        raise DataError(
            f"there is no price for the model {self.model!r}; add it to the price file "
            f"(0 for a server of your own); listed: {', '.join(prices)}"
        )


def make_judge(
    mode: str, params: JudgeParams, tournament: files.TournamentFile, root: Path
) -> Judge:
    """The judge that a run's parameters name."""
    if params.judge == "anthropic" or params.judge == "openai_compatible":  # noqa: PLR1714
        model = _paid_model(mode, params, tournament.judge)
        backend = Backend(kind=params.judge, model=model, **tournament.judge.shared_with(Backend))
        prices = files.read_prices(root / tournament.prices)
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


def _paid_model(mode: str, params: JudgeParams, settings: files.JudgeSettings) -> str:
    """The model that the parameters name, else the tournament file's for this notebook."""
    role = "pilot_model" if mode == "pilot" else "headline_model"
    model = params.judge_model or str(getattr(settings, role))
    if model in ("", settings.baseline.model):
        came = f"it is {model!r}, which is the demo judge" if model else "there is none"
        raise DataError(
            f"judge {params.judge!r} needs a model, as judge_model or as judge.{role} in "
            f"{params.tournament}; {came}"
        )
    return model


def paid_settings(
    kind: str, settings: files.JudgeSettings
) -> files.AnthropicSettings | files.ChatSettings:
    """The settings that belong to a kind of paid judge."""
    return settings.anthropic if kind == "anthropic" else settings.openai_compatible


def _replay(params: JudgeParams, recording: Path, root: Path) -> ReplayJudge:
    if recording == root:
        raise DataError("judge 'replay' needs judge.replay_from, a record or a verdicts file")
    judge = ReplayJudge.from_record(recording)
    if params.judge_model not in ("", judge.model):
        raise DataError(f"the recording is by {judge.model!r}, not {params.judge_model!r}")
    return judge


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's own."""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


def _is_here(address: str) -> bool:
    return is_loopback(urlsplit(address).hostname or "")


def read_key(variable: str, root: Path) -> str | None:
    """The key named by an environment variable, or by a line of the workspace's .env."""
    if value := os.environ.get(variable):
        return value
    file = root / ".env"
    if not file.is_file():
        return None
    if _committable(file):
        raise DataError(f"{file}: git does not ignore this file; add .env to .gitignore")
    return dotenv_values(file).get(variable) or None


def _committable(file: Path) -> bool:
    """Whether the file stands in a git working tree that does not ignore it."""
    command = ["git", "-C", str(file.parent), "check-ignore", "--quiet", file.name]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, timeout=10, check=False)  # noqa: S603
        return done.returncode == 1
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """The batches of one ledger, and the variable of the key to speak to their service."""

    ledger: Ledger
    root: Path
    key_variable: str = ""

    def look(self, intent: Intent) -> Batch:
        """The batch as the service sees it now."""
        return self._judge(intent).poll(_id(intent))

    def cancel(self, name: str) -> Batch:
        """Ask the service to stop a batch. What it has answered is billed and collected by
        the next run; the rest is unpaid.
        """
        intent = self._find(name)
        batch = self._judge(intent).cancel(_id(intent))
        self.ledger.canceled(intent)
        return batch

    def give_up(self, name: str) -> Intent:
        """Forget a batch: its results are not waited for, and its requests may be sent again."""
        intent = self._find(name)
        with self.ledger.locked("give up"):
            self.ledger.close(intent, "given_up")
        return intent

    def _find(self, name: str) -> Intent:
        intents = self.ledger.open_intents()
        for intent in intents:
            if name in (intent.intent, intent.batch_id):
                return intent
        known = ", ".join(intent.batch_id or intent.intent for intent in intents) or "none"
        raise DataError(f"no batch {name!r} is under way; under way: {known}")

    def _judge(self, intent: Intent) -> BatchJudge:
        from arena_kit.judging.judges.anthropic import AnthropicBatches, client_of

        variable = self.key_variable or files.ANTHROPIC_KEY
        key = read_key(variable, self.root)
        if key is None:
            raise DataError(f"no key: set {variable} in the environment or in .env")
        client = client_of(key, intent.service.origin)
        nothing = Price(model=intent.model, input=0, output=0)
        return AnthropicBatches(
            client=client, model=intent.model, price=nothing, max_tokens=1, effort=""
        )  # it looks and cancels, and is asked nothing


def _id(intent: Intent) -> str:
    if intent.batch_id is None:
        raise DataError(
            f"whether {intent.intent} became a batch is not known yet; the next run finds out"
        )
    return intent.batch_id
