"""Slots: the arguments of a tool that are to be filled, each with its search query."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langmem_graph.grounding.tool_spec import ToolSpec

DEEPEST = 4
"""Levels of nested objects whose parts are slots of their own; a deeper object is one slot."""
_ANYTHING: Mapping[str, Any] = {}
_NOTHING: Mapping[str, Any] = {"not": {}}
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|[_\-.]+")


@dataclass(frozen=True)
class Slot:
    """One argument; a part of a nested object has a path of several names."""

    path: tuple[str, ...]
    schema: Mapping[str, Any]
    required: bool
    """It is required, and so is every object that it is a part of."""

    @property
    def name(self) -> str:
        """The path as one name, such as `guest.email`."""
        return slot_name(self.path)

    @property
    def description(self) -> str:
        """The schema's description."""
        return str(self.schema.get("description") or "")

    @property
    def types(self) -> tuple[str, ...]:
        """JSON types of the value, those of all alternatives included."""
        return tuple(dict.fromkeys(_types(self.schema)))

    @property
    def choices(self) -> tuple[Any, ...]:
        """The allowed values, where the schema lists them."""
        return tuple(_choices(self.schema))

    @property
    def item(self) -> "Slot | None":
        """The slot of one item, where the slot takes a list."""
        items = next(_items(self.schema), None)
        return None if items is None else Slot(self.path, items, self.required)

    @property
    def has_default(self) -> bool:
        """True when the schema has a default other than null."""
        return self.schema.get("default") is not None

    def query(self) -> str:
        """The search query: name and description.

        It lacks the request (methods 6.4 adds it), which would find the same facts for every slot.
        """
        return " ".join(filter(None, (*map(in_words, self.path), self.description)))


def slot_name(path: Sequence[str]) -> str:
    """A path as one name, `guest.email`; a dot within a part is `~1`, as in a JSON pointer."""
    return ".".join(part.replace("~", "~0").replace(".", "~1") for part in path)


def slot_path(name: str) -> tuple[str, ...]:
    """The path behind a name; the reverse of `slot_name`."""
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
    """The schema of an object with parts; null may be allowed beside it."""
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
    """The choices of the value and of its items."""
    yield from schema.get("enum") or ()
    if "const" in schema:
        yield schema["const"]
    for part in (*_alternatives(schema), *_items(schema)):
        yield from _choices(part)


def _alternatives(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for word in ("anyOf", "oneOf", "allOf"):
        yield from (part for part in schema.get(word) or () if isinstance(part, Mapping))
