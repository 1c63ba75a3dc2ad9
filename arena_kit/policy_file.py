"""The policy file: read, validated and turned into a `Policy`."""

from __future__ import annotations

from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from pydantic import BeforeValidator, create_model

from arena_kit.battles import DataError
from arena_kit.matchmaking.policy import Policy
from arena_kit.settings import Strict, validated
from arena_kit.store import read_yaml

DEFAULT_POLICY = Path("params/policy.yaml")


def read_policy(path: Path = DEFAULT_POLICY) -> Policy:
    """The policy of a file; what the file leaves out keeps the value of the policy as written."""
    file = validated(_mirror(Policy, Policy()), read_yaml(path), str(path))
    try:
        policy: Policy = _built(Policy, file.model_dump())
    except ValueError as error:
        raise DataError(f"{path}: {error}") from None
    return policy


def _mirror(group: type[Any], defaults: Any) -> type[Strict]:
    """A strict model with the fields, types and defaults of a dataclass, groups included."""
    hints = get_type_hints(group)
    members: dict[str, Any] = {}
    for name in (each.name for each in fields(group)):
        kind, default = hints[name], getattr(defaults, name)
        if is_dataclass(kind):
            kind = _mirror(kind, default)  # type: ignore[arg-type]
            default = kind(**asdict(default))
        elif kind in (int, float):
            kind = Annotated[kind, BeforeValidator(_no_bool)]
        members[name] = (kind, default)
    return create_model(group.__name__, __base__=Strict, **members)


def _no_bool(value: Any) -> Any:
    """YAML reads `yes` and `on` as true, which is no number."""
    if isinstance(value, bool):
        raise ValueError(f"a number is needed, not {str(value).lower()}")  # noqa: TRY004 (pydantic)
    return value


def _built(group: type[Any], values: dict[str, Any], where: str = "") -> Any:
    """The dataclass again, whose own checks say in which group a value is out of range."""
    hints = get_type_hints(group)
    made = {
        name: _built(hints[name], value, f"{name}: ") if is_dataclass(hints[name]) else value
        for name, value in values.items()
    }
    try:
        return group(**made)
    except ValueError as error:
        raise ValueError(f"{where}{error}") from None
