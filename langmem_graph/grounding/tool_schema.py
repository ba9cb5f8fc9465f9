"""Specifications of tools, and the slots that their schemas define.

`tool_spec` reads any form of a tool as name, description and JSON schema without references;
`slots_of` lists the arguments that are to be filled.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import iscoroutinefunction
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_core.utils.json_schema import dereference_refs

from langmem_graph.errors import InvalidInputError

MOST_PARTS = 20_000
"""Most parts of a schema with its references replaced; a few lines can expand to millions."""
DEEPEST = 4
"""Levels of nested objects whose parts are slots of their own; a deeper object is one slot."""

_DEFINED = ("$defs", "definitions")
_ANYTHING: Mapping[str, Any] = {}
_NOTHING: Mapping[str, Any] = {"not": {}}
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|[_\-.]+")


@dataclass(frozen=True)
class ToolSpec:
    """Name, description and arguments of a tool."""

    name: str
    description: str
    schema: dict[str, Any]
    """JSON schema of the arguments: an object, without references."""


def tool_spec(tool: Any) -> ToolSpec:
    """Read a tool.

    Args:
        tool: a LangChain tool, a pydantic model, a function with annotations, an OpenAI function
            (`{"type": "function", "function": …}` or its inner part), or a JSON schema with a
            `title`.

    Raises:
        InvalidInputError: it is none of these, has no name, or its schema is not valid.
    """
    function = _function(tool)
    name = str(function.get("name") or "").strip()
    if not name:
        raise InvalidInputError(
            "The tool has no name. Give it one: 'name', or 'title' in a schema."
        )
    schema = _resolved(function.get("parameters") or {}, name)
    return ToolSpec(name, str(function.get("description") or ""), schema)


def _function(tool: Any) -> Mapping[str, Any]:
    if isinstance(tool, Mapping):
        inner = tool.get("function", tool)
        if isinstance(inner, Mapping) and ("parameters" in inner or "name" in inner):
            return inner
        if isinstance(tool.get("properties", None), Mapping) or tool.get("type") == "object":
            about = {"name": tool.get("title"), "description": tool.get("description")}
            return {**about, "parameters": tool}
    elif isinstance(tool, BaseTool | type) or callable(tool):
        try:
            function: Mapping[str, Any] = convert_to_openai_tool(_as_tool(tool))["function"]
        except Exception as error:  # a function or class that is no tool, by many errors
            raise _no_tool(tool) from error
        return function
    raise _no_tool(tool)


def _as_tool(tool: Any) -> Any:
    """A function as a LangChain tool: parameters that the runtime injects are left out."""
    if isinstance(tool, BaseTool | type):
        return tool
    function, coroutine = (None, tool) if iscoroutinefunction(tool) else (tool, None)
    return StructuredTool.from_function(
        function,
        coroutine,
        description=None if tool.__doc__ else tool.__name__,
        parse_docstring=True,
        error_on_invalid_docstring=False,
    )


def _no_tool(tool: Any) -> InvalidInputError:
    return InvalidInputError(
        f"{type(tool).__name__} is no tool. Give a LangChain tool, a pydantic model, an OpenAI "
        "function or a JSON schema with a title."
    )


def _resolved(parameters: Any, name: str) -> dict[str, Any]:
    """The valid schema of an object, with every reference replaced."""
    try:
        given = dict(parameters)
        if next(islice(_parts(given, given), MOST_PARTS, None), None):
            raise ValueError(f"with its references it has more than {MOST_PARTS:,} parts")
        schema = dereference_refs(given)
        schema = {key: part for key, part in schema.items() if key not in _DEFINED}
        Draft202012Validator.check_schema(schema)
    except (
        SchemaError,
        LookupError,
        TypeError,
        AttributeError,
        ValueError,
        RecursionError,
    ) as error:
        why = getattr(error, "message", str(error))
        raise InvalidInputError(f"The arguments' schema of {name!r} is not valid: {why}") from error
    if schema.get("type", "object") != "object":
        raise InvalidInputError(f"The arguments of {name!r} must be an object.")
    return {"type": "object", "properties": {}, **schema}


def _parts(part: Any, root: Any, within: frozenset[str] = frozenset()) -> Iterator[bool]:
    """One item for each part of a schema, following references except circular ones."""
    yield True
    if isinstance(part, Mapping):
        ref = part.get("$ref")
        if isinstance(ref, str) and ref not in within:
            yield from _parts(_target(root, ref), root, within | {ref})
        inside = [one for name, one in part.items() if part is not root or name not in _DEFINED]
    else:
        inside = part if isinstance(part, list) else []
    for one in inside:
        yield from _parts(one, root, within)


def _target(root: Any, ref: str) -> Any:
    """The target of `#/$defs/name`; None where it cannot be resolved (reported later)."""
    for name in ref.removeprefix("#/").split("/"):
        root = root.get(name) if isinstance(root, Mapping) else None
    return root


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

        It lacks the request, with which every slot would find the same facts.
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
        inner = (*path, name)
        wanted = required and name in needed
        plain = part if isinstance(part, Mapping) else _ANYTHING if part else _NOTHING
        inside = object_in(plain)
        if inside and len(inner) < DEEPEST:
            yield from _slots(inside, inner, required=wanted)
        else:
            yield Slot(inner, plain, wanted)


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
