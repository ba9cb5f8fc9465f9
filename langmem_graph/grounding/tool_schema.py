"""The slots that a tool's JSON schema defines, and the values within arguments, in its
types.

`slots_of` lists the arguments that are to be filled, `leaves` the values that a model
proposes.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langmem_graph.grounding.schema_check import may_be_named
from langmem_graph.llm.tool_specs import ToolSpec

# levels of nested objects whose parts are slots; a deeper object is one slot
DEEPEST = 4

_ANYTHING: Mapping[str, Any] = {}
_NOTHING: Mapping[str, Any] = {"not": {}}
_NAMING = ("title", "description")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|[_\-.]+")
MOST_BRACKETS = 400  # in arguments; a model in a repetition loop nests hundreds of them
PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{1,30})?")
MOST_LEVELS = 32  # of nested objects and lists in arguments
LONGEST_DESCRIPTION = 4_000  # characters of an argument's description that are read
MOST_NAMES = 5  # of one value; they are looked for in every text of others


@dataclass(frozen=True)
class Slot:
    """One argument; a part of a nested object has a path of several names."""

    path: tuple[str, ...]
    schema: Mapping[str, Any]
    required: bool  # it is required, and so is every object that it is a part of

    @property
    def name(self) -> str:
        """The path as one name, such as `guest.email`."""
        return slot_name(self.path)

    @property
    def description(self) -> str:
        """The schema's description."""
        return str(self.schema.get("description") or "")[:LONGEST_DESCRIPTION]

    @property
    def types(self) -> tuple[str, ...]:
        """JSON types of the value, of all alternatives."""
        return tuple(dict.fromkeys(_types(self.schema)))

    @property
    def choices(self) -> tuple[Any, ...]:
        """The allowed values, where the schema lists them."""
        return tuple(_choices(self.schema))

    @property
    def has_default(self) -> bool:
        """True when the schema has a default other than null."""
        return self.schema.get("default") is not None

    @property
    def about(self) -> str:
        """Name and description, as words.

        As a search query it lacks the request, with which every slot would find the
        same facts.
        """
        return " ".join(filter(None, (*map(in_words, self.path), self.description)))

    def names_of(self, value: str) -> list[str]:
        """A value, as words too, and its title and description where the schema has
        them.

        They are beside a `const`, or in the slot's description: "pl Polish, en
        English".
        """
        parts = [part for part in every_form(self.schema) if part.get("const") == value]
        beside = [str(part[key]) for part in parts for key in _NAMING if part.get(key)]
        named = rf"(?<![^\s;,.]){re.escape(value)}(?:\s?[:=–-]|\s)\s*([^;,.\n]+)"
        described = self.description if value.strip() else ""
        explained = map(str.strip, re.findall(named, described))
        names = [value, in_words(value), *beside, *explained]
        return list(dict.fromkeys(names))[:MOST_NAMES]


def slot_name(path: Sequence[str]) -> str:
    """A path as one name, `guest.email`; a dot within a part is `~1`, as in a JSON
    pointer.
    """
    return ".".join(part.replace("~", "~0").replace(".", "~1") for part in path)


def slot_path(name: str) -> tuple[str, ...]:
    """The path behind a name; the reverse of `slot_name`."""
    return tuple(part.replace("~1", ".").replace("~0", "~") for part in name.split("."))


def value_at(arguments: Any, path: Sequence[str]) -> Any:
    """The value at a path of nested objects; None where there is none."""
    for name in path:
        arguments = arguments.get(name) if isinstance(arguments, Mapping) else None
    return arguments


def in_words(name: str) -> str:
    """`checkIn_date` as `check In date`."""
    return _CAMEL.sub(" ", name)


def slots_of(tool: ToolSpec) -> list[Slot]:
    """Every argument of the tool, in the schema's order."""
    return list(_slots(tool.schema, (), required=True))


def _slots(
    schema: Mapping[str, Any], path: tuple[str, ...], *, required: bool
) -> Iterator[Slot]:
    needed = required_in(schema)
    for name, part in properties_in(schema).items():
        inner = (*path, name)
        wanted = required and name in needed
        plain = part if isinstance(part, Mapping) else _ANYTHING if part else _NOTHING
        inside = object_in(plain)
        if inside and len(inner) < DEEPEST:
            yield from _slots(inside, inner, required=wanted)
        else:
            yield Slot(inner, plain, wanted)


def properties_in(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schemas of an object's parts, with those of each `allOf`."""
    named = defaultdict[str, list[Any]](list)
    for form in _all_of(schema):
        for name, part in (form.get("properties") or {}).items():
            named[name].append(part)
    return {
        name: parts[0] if len(parts) == 1 else {"allOf": parts}
        for name, parts in named.items()
    }


def required_in(schema: Mapping[str, Any]) -> set[str]:
    """The names of the parts that an object must have."""
    return {name for form in _all_of(schema) for name in form.get("required") or ()}


def _all_of(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The schema and, at every depth, what must hold with it."""
    yield schema
    for part in schema.get("allOf") or ():
        if isinstance(part, Mapping):
            yield from _all_of(part)


def searched_slots(tool: ToolSpec) -> list[Slot]:
    """The slots to search for: of a list of objects, the parts of these."""
    found = list[Slot]()
    for slot in slots_of(tool):
        inside = next(
            (one for item in _items(slot.schema) if (one := object_in(item))), None
        )
        parts = _slots(inside, slot.path, required=slot.required) if inside else [slot]
        found += parts
    return found


def object_in(schema: Any) -> Mapping[str, Any] | None:
    """The schema of an object with parts; null may be allowed beside it."""
    if not isinstance(schema, Mapping):
        return None
    if properties_in(schema):
        return schema
    others = [one for one in _alternatives(schema) if one.get("type") != "null"]
    return others[0] if len(others) == 1 and properties_in(others[0]) else None


@dataclass(frozen=True)
class Leaf:
    """A single value within arguments: no object and no list."""

    slot: Slot
    value: Any
    free: tuple[str, ...] = ()  # names on its path that the schema does not give


def leaves(
    value: Any, schema: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[Leaf]:
    """Every single value of some arguments with its schema; null and what may not be
    are none.
    """
    if not isinstance(value, dict | list) or not _may_hold(schema, value):
        if value is not None:
            yield Leaf(Slot(path, schema, required=True), value)
        return
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for step, inside in items:
        parts, free = _inside(schema, step)
        if parts:
            inner = parts[0] if len(parts) == 1 else {"anyOf": parts}
            for leaf in leaves(inside, inner, (*path, str(step))):
                yield replace(leaf, free=(str(step), *leaf.free)) if free else leaf


def _may_hold(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether a value of a schema may be such an object or list."""
    kind, parts = (
        ("object", "properties") if isinstance(value, dict) else ("array", "items")
    )
    types = set(_types(schema))
    return (
        not types or kind in types or any(parts in form for form in every_form(schema))
    )


def _inside(
    schema: Mapping[str, Any], step: str | int
) -> tuple[list[Mapping[str, Any]], bool]:
    """The schemas of one part, and whether its name is free; none where it must not be
    there.
    """
    forms = list(every_form(schema))
    free = False
    if isinstance(step, int):
        prefixes = [form.get("prefixItems", ()) for form in forms]
        named = [one[step] for one in prefixes if step < len(one)] or _items(schema)
    else:
        named = [
            form["properties"][step]
            for form in forms
            if step in form.get("properties", ())
        ]
        if free := not named:
            named = [
                part
                for form in forms
                for pattern, part in form.get("patternProperties", {}).items()
                if may_be_named(step, pattern)
            ]
            named = named or [form.get("additionalProperties", True) for form in forms]
    if False in named:
        return [], free
    return [one for one in named if isinstance(one, Mapping)] or [_ANYTHING], free


def every_form(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The schema and, at every depth, its alternatives."""
    yield schema
    for part in _alternatives(schema):
        yield from every_form(part)


def _types(schema: Mapping[str, Any]) -> Iterator[str]:
    for form in every_form(schema):
        given = form.get("type") or ()
        yield from [given] if isinstance(given, str) else given


def _items(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    items = [form.get("items") for form in every_form(schema)]
    return [one for one in items if isinstance(one, Mapping)]


def _choices(schema: Mapping[str, Any]) -> Iterator[Any]:
    """The choices of the value and of its items."""
    for form in every_form(schema):
        yield from form.get("enum") or ()
        yield from [form["const"]] if "const" in form else ()
    for part in _items(schema):
        yield from _choices(part)


def _alternatives(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for word in ("anyOf", "oneOf", "allOf"):
        yield from (
            part for part in schema.get(word) or () if isinstance(part, Mapping)
        )


def read_arguments(text: str) -> dict[str, Any] | None:
    """The arguments that a model wrote as JSON; None where it is no object that can be
    stored.
    """
    if text.count("[") + text.count("{") > MOST_BRACKETS:
        return None
    try:
        value = json.loads(text, parse_constant=_no_constant)
        # lone surrogates and infinite numbers cannot be stored
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return None
    return value if isinstance(value, dict) and _levels(value) <= MOST_LEVELS else None


def _levels(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value
    inside = parts if isinstance(value, dict | list) else ()
    return 1 + max(map(_levels, inside), default=0)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def converted(value: Any, slot: Slot) -> Any:
    """A single value in one of the slot's types, where only its JSON type is another.

    A choice is spelled as the schema has it. What cannot be converted stays as it is,
    which the schema check then reports.
    """
    types = slot.types
    for choice in slot.choices:
        if (
            isinstance(choice, str)
            and choice.casefold() == str(value).strip().casefold()
        ):
            return choice
    if isinstance(value, str) and types and "string" not in types:
        plain = value.strip()
        if "boolean" in types and plain.casefold() in ("true", "false"):
            return plain.casefold() == "true"
        if {"number", "integer"} & set(types) and PLAIN_NUMBER.fullmatch(plain):
            return json.loads(plain)
    if "string" in types and not {"number", "integer", "boolean"} & set(types):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return str(value) if is_number else value
    return int(value) if isinstance(value, float) and value.is_integer() else value
