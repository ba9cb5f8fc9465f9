"""Tools of any form as name, description and JSON schema without references."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_core.utils.json_schema import dereference_refs

from langmem_graph.errors import InvalidInputError

# of a schema, its references replaced; a few lines can expand to millions
MOST_PARTS = 20_000
CHARACTERS_A_PART = 100  # a longer text counts as several parts
DEEPEST = 64  # levels of a schema
_DEFINED = ("$defs", "definitions")
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
            function (`{"type": "function", "function": …}` or its inner part), or a
            JSON schema with a `title`.

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
        if (
            isinstance(tool.get("properties", None), Mapping)
            or tool.get("type") == "object"
        ):
            about = {"name": tool.get("title"), "description": tool.get("description")}
            return {**about, "parameters": tool}
    elif isinstance(tool, BaseTool | type) or callable(tool):
        try:
            function: Mapping[str, Any] = convert_to_openai_tool(_as_tool(tool))[
                "function"
            ]
        # a function or class that is no tool, by many errors
        except Exception as error:
            raise _no_tool(tool) from error
        return function
    raise _no_tool(tool)


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


def _no_tool(tool: Any) -> InvalidInputError:
    return InvalidInputError(
        f"{type(tool).__name__} is no tool. Give a LangChain tool, a pydantic model, "
        "an OpenAI "
        "function or a JSON schema with a title."
    )


def _resolved(parameters: Any, name: str) -> dict[str, Any]:
    """The valid schema of an object, with every reference replaced."""
    try:
        given = dict(parameters)
        _check_parts(given)
        schema = _without_dialects(dereference_refs(given))
        schema = {key: part for key, part in schema.items() if key not in _DEFINED}
        Draft202012Validator.check_schema(schema, format_checker=_NO_FORMATS)
    except _INVALID as error:
        why = getattr(error, "message", str(error))
        raise InvalidInputError(
            f"The arguments' schema of {name!r} is not valid: {why}"
        ) from error
    if schema.get("type", "object") != "object":
        raise InvalidInputError(f"The arguments of {name!r} must be an object.")
    return {"type": "object", "properties": {}, **schema}


def _without_dialects(part: Any) -> Any:
    """The schema without `$schema`: below a part that names its dialect, jsonschema
    would check by its own rules, patterns with `re` among them.
    """
    if isinstance(part, list):
        return [_without_dialects(inside) for inside in part]
    if not isinstance(part, dict):
        return part
    return {
        name: _without_dialects(inside)
        for name, inside in part.items()
        if not (name == "$schema" and isinstance(inside, str))
    }


def _check_parts(schema: Mapping[str, Any]) -> None:
    """Raise ValueError for a schema that is too large, too deep, or refers to what only
    a validator would look up.
    """
    size = 0
    for part in _sizes(schema, schema):
        size += part
        if size > MOST_PARTS:
            raise ValueError(
                f"with its references it has more than {MOST_PARTS:,} parts"
            )


def _sizes(
    part: Any, root: Any, within: frozenset[str] = frozenset(), depth: int = 0
) -> Iterator[int]:
    """The size of each part of a schema, following references except circular ones."""
    if depth > DEEPEST:
        raise ValueError(f"with its references it has more than {DEEPEST} levels")
    yield 1 + len(part) // CHARACTERS_A_PART if isinstance(part, str) else 1
    if isinstance(part, Mapping):
        for word in _RESOLVED_LATE:
            if isinstance(part.get(word), str):
                raise ValueError(f"{word} is not supported; use $ref with '#/$defs/…'")
        ref = part.get("$ref")
        if isinstance(ref, str) and ref not in within:
            yield from _sizes(_target(root, ref), root, within | {ref}, depth + 1)
        inside = [
            one
            for name, one in part.items()
            if part is not root or name not in _DEFINED
        ]
    else:
        inside = part if isinstance(part, list) else []
    for one in inside:
        yield from _sizes(one, root, within, depth + 1)


def _target(root: Any, ref: str) -> Any:
    """The target of `#/$defs/name`; None where it cannot be resolved (reported
    later).
    """
    for name in ref.removeprefix("#/").split("/"):
        if isinstance(root, Mapping):
            root = root.get(name)
        elif isinstance(root, list) and name.isdecimal() and int(name) < len(root):
            root = root[int(name)]
        else:
            return None
    return root
