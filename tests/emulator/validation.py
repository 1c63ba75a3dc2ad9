"""The rules a request must keep, and the words in which the service complains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.emulator.catalogue import EFFORTS, MODELS, Model
from tests.emulator.errors import ApiError, invalid

#: The first API version without sampling parameters. [DOC-B]
NO_SAMPLING = "2026-10-21"
SAMPLING = ("temperature", "top_p", "top_k")
#: Fields of MessageCreateParams. [SRC]
KNOWN = frozenset(
    "max_tokens messages model cache_control container diagnostics inference_geo metadata "
    "output_config service_tier speed stop_sequences stream system thinking tool_choice tools "
    "user_profile_id workspace_id".split()
)
#: Fields that count_tokens does not have. [SRC]
NOT_COUNTED = frozenset(
    "max_tokens container diagnostics inference_geo metadata service_tier stop_sequences "
    "stream".split()
)


def check(params: Any, *, version: str, where: str) -> Model:
    """Raise what the service would; `where` is "messages", "batch" or "count_tokens"."""
    if not isinstance(params, dict):
        raise invalid("params: Input should be a valid dictionary")
    _check_names(params, version, where)
    model = _model(params.get("model"))
    _check_messages(params.get("messages"))
    if params.get("system") is not None:
        _check_content(params["system"], "system")
    _check_output(params.get("output_config"))
    if where != "count_tokens":
        _check_max_tokens(params, model)
    return model


def _check_names(params: Mapping[str, Any], version: str, where: str) -> None:
    """Sampling parameters are gone [DOC-B]; unknown keys are refused by name [3P]."""
    unknown = params.keys() - KNOWN
    for name in SAMPLING:
        if name in unknown:
            if version >= NO_SAMPLING:
                raise invalid(f"{name}: This parameter is not supported in this API version.")
            unknown.discard(name)
    if where == "count_tokens":
        unknown |= params.keys() & NOT_COUNTED
    if unknown:
        raise invalid(f"{min(unknown)}: Extra inputs are not permitted")


def _model(name: Any) -> Model:
    """An unknown or retired model is a 404 [INF]."""
    if not isinstance(name, str):
        raise invalid("model: Field required")
    model = MODELS.get(name)
    if model is None or model.lifecycle == "retired":
        raise ApiError(404, f"model: {name}")
    return model


def _check_messages(messages: Any) -> None:
    """At least one message, each with content [DOC-A]."""
    if not isinstance(messages, list) or not messages:
        raise invalid("messages: at least one message is required")
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in {"user", "assistant"}:
            raise invalid(f"messages.{index}.role: Input should be 'user' or 'assistant'")
        _check_content(message.get("content"), f"messages.{index}.content")


def _check_content(content: Any, where: str) -> None:
    """Text is never empty [3P]."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise invalid(f"{where}: Input should be a valid string or a list of blocks")
    if any(block.get("type") == "text" and not block.get("text") for block in blocks):
        raise invalid(f"{where}: text content blocks must be non-empty")


def _check_max_tokens(params: Mapping[str, Any], model: Model) -> None:
    limit = params.get("max_tokens")
    if type(limit) is not int or limit < 1:
        raise invalid("max_tokens: Field required")
    if limit > model.max_tokens:
        raise invalid(
            f"max_tokens: {limit} > {model.max_tokens}, which is the maximum allowed number of "
            f"output tokens for {model.id}"
        )


def _check_output(config: Any) -> None:
    """Effort is one of five [SRC]; an object schema must be closed [3P]."""
    if config is None:
        return
    if not isinstance(config, dict) or config.keys() - {"effort", "format"}:
        raise invalid("output_config: Extra inputs are not permitted")
    if config.get("effort") is not None and config["effort"] not in EFFORTS:
        raise invalid(f"output_config.effort: Input should be one of {', '.join(EFFORTS)}")
    if (form := config.get("format")) is None:
        return
    schema = form.get("schema") if isinstance(form, dict) else None
    if not isinstance(schema, dict) or form.get("type") != "json_schema":
        raise invalid("output_config.format: Input should be a json_schema with a schema")
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        raise invalid(
            "output_config.format.schema: For 'object' type, 'additionalProperties' must be "
            "explicitly set to false"
        )
