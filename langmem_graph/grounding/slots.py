"""slots: each argument to be filled, and what to look for in memory for it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langmem_graph.grounding.tool_spec import ToolSpec

DEEPEST = 4
"""Levels of nested objects whose parts are slots of their own; below, the object is one."""
_ANYTHING: Mapping[str, Any] = {}
_NOTHING: Mapping[str, Any] = {"not": {}}
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|[_\-.]+")


@dataclass(frozen=True)
class Slot:
    """One argument; a part of a nested object has a path of several names."""

    path: tuple[str, ...]
    schema: Mapping[str, Any]
    required: bool
    """The call cannot do without it, and neither can what it is a part of."""

    @property
    def name(self) -> str:
        """`guest.email`."""
        return joined(self.path)

    @property
    def description(self) -> str:
        """What the schema says of it."""
        return str(self.schema.get("description") or "")

    @property
    def types(self) -> tuple[str, ...]:
        """JSON types that it may have, with those of its alternatives."""
        return tuple(dict.fromkeys(_types(self.schema)))

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values that are allowed, where the schema lists them."""
        return tuple(_choices(self.schema))

    @property
    def item(self) -> "Slot | None":
        """For a list, one of its items."""
        items = next(_items(self.schema), None)
        return None if items is None else Slot(self.path, items, self.required)

    @property
    def has_default(self) -> bool:
        """The schema says what is taken when nothing is given; null is nothing, too."""
        return self.schema.get("default") is not None

    def query(self) -> str:
        """What to look for: name and description.

        Not the request, as methods 6.4 has it: that finds the same facts for every slot.
        """
        return " ".join(filter(None, (*map(in_words, self.path), self.description)))


def joined(path: Sequence[str]) -> str:
    """A path as one name, `guest.email`; a dot within a part is `~1`, as in a JSON pointer."""
    return ".".join(part.replace("~", "~0").replace(".", "~1") for part in path)


def parted(name: str) -> tuple[str, ...]:
    """The path of a name that `joined` wrote."""
    return tuple(part.replace("~1", ".").replace("~0", "~") for part in name.split("."))


def in_words(name: str) -> str:
    """`checkIn_date` as `check In date`."""
    return _CAMEL.sub(" ", name)


def slots_of(tool: ToolSpec) -> list[Slot]:
    """Every argument of the tool, in the schema's order."""
    return list(_slots(tool.schema, (), required=True))


def _slots(schema: Mapping[str, Any], path: tuple[str, ...], *, required: bool) -> Iterator[Slot]:
    needed = schema.get("required") or ()
    for name, part in schema["properties"].items():
        own = (*path, name)
        wanted = required and name in needed
        plain = part if isinstance(part, Mapping) else _ANYTHING if part else _NOTHING
        inside = object_in(plain)
        if inside and len(own) < DEEPEST:
            yield from _slots(inside, own, required=wanted)
        else:
            yield Slot(own, plain, wanted)


def object_in(schema: Any) -> Mapping[str, Any] | None:
    """The object with parts that a schema is, or is beside null."""
    if not isinstance(schema, Mapping):
        return None
    if schema.get("properties"):
        return schema
    others = [one for one in _alternatives(schema) if one.get("type") != "null"]
    return others[0] if len(others) == 1 and others[0].get("properties") else None


def _types(schema: Mapping[str, Any]) -> Iterator[str]:
    given = schema.get("type")
    yield from [given] if isinstance(given, str) else given or ()
    for part in _alternatives(schema):
        yield from _types(part)


def _items(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if isinstance(schema.get("items"), Mapping):
        yield schema["items"]
    for part in _alternatives(schema):
        yield from _items(part)


def _choices(schema: Mapping[str, Any]) -> Iterator[Any]:
    """Also those of a list's items."""
    yield from schema.get("enum") or ()
    if "const" in schema:
        yield schema["const"]
    for part in (*_alternatives(schema), *_items(schema)):
        yield from _choices(part)


def _alternatives(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for word in ("anyOf", "oneOf", "allOf"):
        yield from (part for part in schema.get(word) or () if isinstance(part, Mapping))
