"""YAML that is safe to load: plain values, each key once, of bounded depth and size."""

from typing import Any

import yaml

_DEPTH = 50
_VALUES = 100_000
_BASES: tuple[Any, ...] = (yaml.SafeLoader,)
if yaml.__with_libyaml__:  # which parses ten times as fast; nodes are composed in Python, to count
    _BASES = (yaml.composer.Composer, yaml.CSafeLoader)


def load_yaml(text: str) -> Any:
    """The value of a text; a ValueError begins with the line, as `:3`, where that is known."""
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 (a safe loader)
    except (yaml.YAMLError, TypeError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = str(getattr(error, "problem", error)).splitlines()[0]
        raise ValueError(f"{line}: not valid YAML ({problem})") from None


class _Loader(*_BASES):  # type: ignore[misc]
    """A safe loader that takes each key once, and refuses a text that would be too much when its
    aliases are followed: they are counted, not expanded.
    """

    def __init__(self, text: str) -> None:
        _BASES[-1].__init__(self, text)
        self.anchors: dict[str, yaml.Node] = {}
        self.depth = 0
        self.values = 0
        self.values_below: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> Any:
        before = self.values
        mark = self.peek_event().start_mark
        is_alias = self.check_event(yaml.AliasEvent)
        self.depth += 1
        if self.depth > _DEPTH:
            raise _refused(f"nested deeper than {_DEPTH} levels", mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        if is_alias and id(node) not in self.values_below:
            raise _refused("an alias inside what it stands for", mark)
        self.values += self.values_below[id(node)] if is_alias else 1
        if self.values > _VALUES:
            raise _refused(f"more than {_VALUES:,} values, aliases followed", mark)
        self.values_below.setdefault(id(node), self.values - before)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"key {key!r} appears twice", problem_mark=key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def _refused(problem: str, mark: yaml.Mark) -> yaml.MarkedYAMLError:
    return yaml.composer.ComposerError(problem=problem, problem_mark=mark)
