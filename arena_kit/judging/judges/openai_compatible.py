"""Any chat-completions server as a judge or an entrant: vLLM, llama.cpp, Ollama, a provider."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import httpx2

from arena_kit.judging.judges import base
from arena_kit.judging.judges.base import Price, Result, ServiceError, Structured
from arena_kit.judging.verdicts import records
from arena_kit.judging.verdicts.records import Asked, Status, verdict_schema

_STATUS = {"length": Status.TRUNCATED, "content_filter": Status.REFUSED}
#: Statuses after which an answer may have been billed.
_UNSURE = (408, 504)
_GRAMMAR = r"""
root ::= "{" ws "\"justification\":" ws string "," ws "\"winner\":" ws winner ws "}"
winner ::= WINNERS
string ::= "\"" ([^"\\\x00-\x1f] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\""
ws ::= [ \t\n]{0,8}
""".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatJudge:
    """A model behind a chat-completions endpoint.

    Parameters
    ----------
    base_url
        The address before `/chat/completions`, `/v1` included where the server has it.
    temperature
        Sent as it is; None leaves it to the server.
    structured
        How a verdict's shape is asked for; other texts are read as `read_verdict` says.
    graded
        Whether that shape is the one of a graded verdict.
    sees
        Whether the model takes images; one that does not is not sent any.
    image_edge
        The longest edge of an image in pixels: larger ones are scaled down; 0 scales none.
    """

    base_url: str
    model: str
    price: Price
    max_tokens: int
    temperature: float | None
    structured: Structured
    concurrency: int
    timeout: float
    api_key: str | None = field(default=None, repr=False)
    verdict: bool = True
    graded: bool = False
    sees: bool = False
    image_edge: int = base.IMAGE_EDGE
    _client: httpx2.Client = field(init=False, repr=False, compare=False)
    _refused: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        limits = httpx2.Limits(max_connections=self.concurrency)
        client = httpx2.Client(
            headers=headers,
            timeout=self.timeout,
            limits=limits,
            follow_redirects=False,
            verify=base.tls_context(),
        )
        object.__setattr__(self, "_client", client)

    @property
    def settings(self) -> Mapping[str, object]:
        settings: dict[str, object] = {
            "judge": "openai_compatible",
            "base_url": self.base_url,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "structured": self.structured if self.verdict else "none",
        }
        edge = {} if self.image_edge == base.IMAGE_EDGE else {"image_edge": self.image_edge}
        return settings | edge | ({"graded": True} if self.graded else {})

    @property
    def service(self) -> base.Service:
        return base.Service.of(self.base_url, self.api_key)

    def at(self, address: str) -> Self:
        return replace(self, base_url=address)

    def ready(self) -> None:
        """A server may do without a key."""

    def check(self, _requests: Sequence[Asked]) -> list[str]:
        """Raise when nobody answers at the address; warn when the model is not listed."""
        try:
            response = self._client.get(f"{self.base_url}/models")
        except httpx2.HTTPError as error:
            why = type(error).__name__
            raise ServiceError(f"no server answers at {self.base_url} ({why})") from None
        if response.status_code in (401, 403) or response.has_redirect_location:
            raise self._refusal(response, "listing models")
        if response.status_code == 404:
            raise ServiceError(f"{self.base_url} has no /models; base_url may lack /v1")
        try:
            listed = {str(row["id"]) for row in response.json()["data"]}
        except (ValueError, KeyError, TypeError):
            return []
        unlisted = listed and self.model not in listed
        return [f"{self.base_url} does not list the model {self.model}"] if unlisted else []

    def count_tokens(self, _request: Asked) -> None:
        """Chat-completions servers have no common way to count."""

    def ask(self, request: Asked) -> Result:
        shape = self._shape()
        response = self._post(self._body(request) | shape)
        if response.status_code in (400, 422) and shape and self.structured == "auto":
            response = self._post(self._body(request))
            if response.status_code == 200:  # this server has no such field
                self._refused.update(shape)
        if response.status_code != 200:
            raise self._refusal(response, f"asking {self.model}")
        return self._read(request, response.text).without(self.api_key)

    def _refusal(self, response: httpx2.Response, what: str) -> ServiceError:
        """A refusal in our terms, without the key in its words."""
        text = response.headers["location"] if response.has_redirect_location else response.text
        return base.status_error(response, what, base.scrubbed(text, self.api_key), _UNSURE)

    def _shape(self) -> dict[str, Any]:
        if not self.verdict or self.structured == "none":
            return {}
        if self.structured == "grammar":
            labels = records.GRADED_LABELS if self.graded else records.PLAIN_LABELS
            winners = " | ".join(f'"\\"{label}\\""' for label in labels)
            return {"grammar": _GRAMMAR.replace("WINNERS", winners)}
        if self.structured == "auto" and "response_format" in self._refused:
            return {}
        shape = verdict_schema(graded=self.graded)
        schema = {"name": "verdict", "strict": True, "schema": shape}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}

    def _body(self, request: Asked) -> dict[str, Any]:
        system = [{"role": "system", "content": request.system}] if request.system else []
        parts = [base.image_part(piece, self.image_edge, _image_part) for piece in request.pieces]
        content = parts if len(parts) > 1 else request.user
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [*system, {"role": "user", "content": content}],
            "max_tokens": self.max_tokens,
        }
        optional = {"temperature": self.temperature, "seed": request.seed}
        return body | {name: value for name, value in optional.items() if value is not None}

    def _post(self, body: dict[str, Any]) -> httpx2.Response:
        try:
            return self._client.post(f"{self.base_url}/chat/completions", json=body)
        except httpx2.ConnectError:
            raise base.BusyError(f"no server answers at {self.base_url}") from None
        except httpx2.HTTPError as error:
            raise base.UnsureError(f"asking {self.model}: {type(error).__name__}") from None

    def _read(self, request: Asked, text: str) -> Result:
        try:
            row = base.parsed_json(text)
            if row.get("error") and not row.get("choices"):
                why = base.scrubbed(json.dumps(row["error"]), self.api_key)
                raise base.BusyError(f"{self.model}: {why}")
            choice = row["choices"][0]
            message = choice["message"]
            content = str(message.get("content") or "")
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
            raise base.NoAnswerError(f"asking {self.model}", text, self.api_key) from None
        finish = str(choice.get("finish_reason"))
        refusal = message.get("refusal")
        usage = _usage(row.get("usage"))
        status = Status.REFUSED if refusal else _STATUS.get(finish, Status.OK)
        said, usd = content or str(refusal or ""), self.price.usd(usage, batch=False)
        detail = "" if finish == "stop" else finish
        answer = base.answer_of(
            request.request_id, status, said, row, usage=usage, usd=usd, detail=detail
        )
        return Result(answer=answer, line=text)


def _image_part(media_type: str, data: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}


def _usage(usage: Any) -> dict[str, int]:
    """A chat completion's counts under the names that prices use; empty, which is unknown,
    when there are none or one of them counts nothing.
    """
    try:
        details = usage.get("prompt_tokens_details") or {}
        cached = details.get("cached_tokens") or 0
        counts = base.token_counts(
            {
                "input_tokens": usage["prompt_tokens"] - cached,
                "output_tokens": usage["completion_tokens"],
                "cache_read_input_tokens": cached,
            }
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}
    return {name: n for name, n in counts.items() if n or name != "cache_read_input_tokens"}
