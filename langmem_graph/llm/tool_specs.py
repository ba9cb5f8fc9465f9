"""Tools of any form as name, description and JSON schema without references."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from inspect import iscoroutinefunction
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints
from urllib.parse import unquote

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_core.utils.pydantic import is_basemodel_subclass
from typing_extensions import is_typeddict

from langmem_graph.errors import InvalidInputError, quoted, shortened

# of a schema, its references replaced; a few lines can expand to millions
MOST_PARTS = 5_000
CHARACTERS_A_PART = 100  # a longer text or number counts as several parts
BITS_A_PART = 332  # a hundred decimal digits
DEEPEST = 64  # levels of a schema
PARTS_A_PATTERN = 100
"""As many as a pattern counts for at its first use: compiling it takes some time."""
PARTS_A_WIDE_PATTERN = 250
"""As many as a pattern of Unicode classes, or a long one, counts for."""
_IS_WIDE = re.compile(r"\\[pPx]|[^\x00-\x7f]|.{100}", re.DOTALL)
MOST_TYPES = 7  # that JSON has
_DEFINED = ("$defs", "definitions")
DATA_KEYWORDS = ("const", "enum", "default", "examples")
"""Keywords whose values are no schemas."""
_Kind = Literal["schema", "names", "data"]
"""What a part is: a schema, schemas by name, or a value."""
_INSIDE: Mapping[str, _Kind] = {
    **dict.fromkeys(DATA_KEYWORDS, "data"),
    **dict.fromkeys(("properties", "patternProperties", *_DEFINED), "names"),
    **dict.fromkeys(("dependentSchemas", "dependentRequired"), "names"),
    "dependencies": "names",
}
_NOTES = (
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
)
"""Keywords that set no condition."""
_SCHEMA_NAMES = ("parameters", "input_schema", "inputSchema")
"""What the arguments' schema is called by OpenAI, Anthropic and MCP."""
_RESOLVED_LATE = ("$dynamicRef", "$recursiveRef")
"""References that a validator resolves while it checks a value, by fetching them."""
_NO_FORMATS = FormatChecker(formats=())
"""Patterns run in RE2, so Python's `re` need not be able to compile them."""
_INVALID = (
    SchemaError,
    LookupError,
    TypeError,
    AttributeError,
    ValueError,
    RecursionError,
)


@dataclass(frozen=True)
class ToolSpec:
    """Name, description and arguments of a tool."""

    name: str
    description: str
    # JSON schema of the arguments: an object, without references
    schema: dict[str, Any]


def tool_spec(tool: Any) -> ToolSpec:
    """Read a tool.

    Args:
        tool: a LangChain tool, a pydantic model, a function with annotations, an OpenAI
            function (`{"type": "function", "function": …}` or its inner part), a tool
            as Anthropic or MCP write it (`{"name": …, "input_schema": …}`), or a JSON
            schema with a `title`.

    Raises:
        InvalidInputError: it is none of these, has no name, or its schema is not valid.
    """
    function = _function(tool)
    name = _as_text(function.get("name")).strip()
    if not name:
        raise InvalidInputError(
            "The tool has no name. Give it one: 'name', or 'title' in a schema."
        )
    schema = _resolved(function.get("parameters") or {}, name)
    return ToolSpec(name, _as_text(function.get("description")), schema)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _function(tool: Any) -> Mapping[str, Any]:
    if isinstance(tool, Mapping):
        inner = tool.get("function", tool)
        if isinstance(inner, Mapping) and ("parameters" in inner or "name" in inner):
            schemas = [inner[name] for name in _SCHEMA_NAMES if name in inner]
            return {**inner, "parameters": next(iter(schemas), None)}
        if (
            isinstance(tool.get("properties", None), Mapping)
            or tool.get("type") == "object"
        ):
            about = {"name": tool.get("title"), "description": tool.get("description")}
            return {**about, "parameters": tool}
    elif isinstance(tool, BaseTool | type) or callable(tool):
        try:
            return _function_of(_as_tool(tool))
        except InvalidInputError:
            raise
        # a function or class that is no tool, by many errors
        except Exception as error:
            why = shortened(str(error).partition("\n")[0])
            raise _no_tool(tool, f" ({type(error).__name__}: {why})") from error
    raise _no_tool(tool)


def _function_of(tool: Any) -> Mapping[str, Any]:
    """A tool whose schema is given as JSON keeps its references: LangChain would
    replace them without bounds.
    """
    schema = tool.tool_call_schema if isinstance(tool, BaseTool) else tool
    if isinstance(schema, Mapping):
        about = {"name": tool.name, "description": tool.description}
        return {**about, "parameters": schema}
    # before LangChain replaces the references of the class
    if is_basemodel_subclass(schema):
        _resolved(_schema_of(schema), schema.__name__)
    elif isinstance(schema, type) and _size(schema, {}) > MOST_PARTS:
        raise InvalidInputError(
            f"With its nested classes {schema.__name__} has more than {MOST_PARTS:,} "
            "fields."
        )
    function: Mapping[str, Any] = convert_to_openai_tool(tool)["function"]
    return function


def _schema_of(model: type[Any]) -> dict[str, Any]:
    """The schema of a pydantic model of version 2 or 1."""
    made = getattr(model, "model_json_schema", None) or model.schema
    schema: dict[str, Any] = made()
    return schema


def _size(kind: Any, sizes: dict[Any, int]) -> int:
    """How many parts a class has; a class within it counts wherever it is used."""
    if kind not in sizes:
        sizes[kind] = 1  # for a class that contains itself
        sizes[kind] += sum(_size(part, sizes) for part in _parts_of(kind))
    return sizes[kind]


def _parts_of(kind: Any) -> Iterable[Any]:
    """The types of a class's fields, or those that a type such as a list names."""
    if get_origin(kind) is Annotated:
        return get_args(kind)[:1]
    if is_basemodel_subclass(kind):
        fields = kind.model_fields if hasattr(kind, "model_fields") else kind.__fields__
        return [field.annotation for field in fields.values()]
    is_read = is_typeddict(kind) or is_dataclass(kind) or hasattr(kind, "_fields")
    return (get_type_hints(kind) if is_read else {}).values() or get_args(kind)


def _as_tool(tool: Any) -> Any:
    """A function as a LangChain tool: parameters that the runtime injects are
    left out.
    """
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


def _no_tool(tool: Any, why: str = "") -> InvalidInputError:
    return InvalidInputError(
        f"{type(tool).__name__} is no tool{why}. Give a LangChain tool, a pydantic "
        "model, an OpenAI function or a JSON schema with a title."
    )


def _resolved(parameters: Any, name: str) -> dict[str, Any]:
    """The valid schema of an object, with every reference replaced."""
    try:
        schema = _Expansion(dict(parameters)).schema()
        Draft202012Validator.check_schema(schema, format_checker=_NO_FORMATS)
    except _INVALID as error:
        why = shortened(getattr(error, "message", str(error)))
        raise InvalidInputError(
            f"The arguments' schema of {quoted(name)} is not valid: {why}"
        ) from error
    if schema.get("type", "object") != "object":
        raise InvalidInputError(f"The arguments of {quoted(name)} must be an object.")
    return {"type": "object", "properties": {}, **schema}


class _Expansion:
    """A schema with its references replaced, bounded in size and depth.

    A circular reference becomes a schema without conditions.
    """

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._size = 0
        self._patterns = set[str]()

    def schema(self) -> dict[str, Any]:
        """The schema, without its definitions."""
        used = {name: part for name, part in self._root.items() if name not in _DEFINED}
        expanded: dict[str, Any] = self._expanded(used, (self._root,), "schema")
        return expanded

    def _expanded(self, part: Any, around: tuple[Any, ...], kind: _Kind) -> Any:
        if len(around) > DEEPEST:
            raise ValueError(f"with its references it has more than {DEEPEST} levels")
        self._count(part)
        if isinstance(part, list):
            return [self._expanded(inside, (*around, part), kind) for inside in part]
        if not isinstance(part, Mapping):
            return part
        if kind == "schema":
            return self._without_reference(part, around)
        below: _Kind = "data" if kind == "data" else "schema"
        return {
            _text(name): self._expanded(value, (*around, part), below)
            for name, value in part.items()
        }

    def _without_reference(
        self, part: Mapping[str, Any], around: tuple[Any, ...]
    ) -> Mapping[str, Any]:
        self._count_patterns(part)
        _check_types(part)
        target = self._referred(part, around)
        beside = {
            _text(name): self._expanded(
                value, (*around, part), _INSIDE.get(name, "schema")
            )
            for name, value in part.items()
            if not _is_for_validators(name, value)
        }
        return _joined(target, _of_today(beside))

    def _referred(
        self, part: Mapping[str, Any], around: tuple[Any, ...]
    ) -> Mapping[str, Any]:
        """What a part refers to; empty without a reference and for a circular one."""
        reference = part.get("$ref")
        if not isinstance(reference, str):
            return {}
        self._count(reference)
        # the first two are the root, with its definitions and without
        if any(_has_id(outer) for outer in (*around, part)[2:]):
            raise ValueError("a $ref below an $id of a part is not supported")
        target = self._target(reference)
        if any(target is outer for outer in (*around, part)):
            return {}
        inside = (*around, part)
        expanded: Mapping[str, Any] = self._expanded(target, inside, "schema")
        return expanded

    def _target(self, reference: str) -> Mapping[str, Any]:
        """The part at `#/$defs/name`."""
        part: Any = self._root
        first, *names = reference.split("/")
        for escaped in names:
            name = unquote(escaped).replace("~1", "/").replace("~0", "~")
            if isinstance(part, Mapping):
                part = part.get(name)
            elif isinstance(part, list) and name.isdecimal():
                part = part[int(name)] if int(name) < len(part) else None
            else:
                part = None
        if first != "#" or not isinstance(part, Mapping):
            raise ValueError(f"it has no part {reference[:100]!r}")
        return part

    def _count(self, part: Any) -> None:
        texts = part if isinstance(part, Mapping) else [part]
        self._grow(1 + sum(map(parts_of_text, texts)))

    def _count_patterns(self, part: Mapping[str, Any]) -> None:
        named = part.get("patternProperties")
        names = named if isinstance(named, Mapping) else ()
        texts = {one for one in (part.get("pattern"), *names) if isinstance(one, str)}
        for pattern in texts - self._patterns:
            wide = _IS_WIDE.search(pattern) is not None
            self._grow(PARTS_A_WIDE_PATTERN if wide else PARTS_A_PATTERN)
        self._patterns |= texts

    def _grow(self, parts: int) -> None:
        self._size += parts
        if self._size > MOST_PARTS:
            raise ValueError(
                f"with its references it has more than {MOST_PARTS:,} parts"
            )


def parts_of_text(value: Any) -> int:
    """As how many further parts a long text or number counts."""
    if isinstance(value, int):
        return value.bit_length() // BITS_A_PART
    return len(value) // CHARACTERS_A_PART if isinstance(value, str) else 0


def _has_id(part: Any) -> bool:
    return isinstance(part, Mapping) and isinstance(part.get("$id"), str)


def _text(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name {quoted(name)} is no text")
    return name


def _check_types(part: Mapping[str, Any]) -> None:
    """Refuse a long list, in which jsonschema compares each type with each."""
    types = part.get("type")
    if isinstance(types, list) and len(types) > MOST_TYPES:
        raise ValueError(f"there are {MOST_TYPES} types, not {len(types):,}")


def _of_today(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema with the two keywords that replaced `dependencies` of older drafts."""
    older = part.get("dependencies")
    if not isinstance(older, Mapping):
        return part
    rest = {name: value for name, value in part.items() if name != "dependencies"}
    names = {name: one for name, one in older.items() if isinstance(one, list)}
    schemas = {name: one for name, one in older.items() if name not in names}
    return _joined({"dependentRequired": names, "dependentSchemas": schemas}, rest)


def _joined(target: Mapping[str, Any], beside: Mapping[str, Any]) -> Mapping[str, Any]:
    """One schema of what a reference leads to and of what stands beside it.

    Where each sets conditions both hold, by `allOf`: merged, keywords such as
    `properties` and `additionalProperties` would mean something else.
    """
    if not (_conditions(target) and _conditions(beside)):
        return {**target, **beside}
    notes = {name: target[name] for name in _NOTES if name in target}
    return {**notes, **beside, "allOf": [*beside.get("allOf", ()), target]}


def _conditions(schema: Mapping[str, Any]) -> set[str]:
    return schema.keys() - set(_NOTES)


def _is_for_validators(name: str, value: Any) -> bool:
    """Whether a keyword only tells a validator where to look or by which rules.

    Below a part that names its dialect, jsonschema would check by its own rules,
    patterns with `re` among them.
    """
    if name in _RESOLVED_LATE and isinstance(value, str):
        raise ValueError(f"{name} is not supported; use $ref with '#/$defs/…'")
    return name in ("$ref", "$schema") and isinstance(value, str)
