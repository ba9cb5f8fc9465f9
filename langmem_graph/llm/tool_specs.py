"""Tools of any form as name, description and JSON schema without references."""

from collections.abc import Iterator, Mapping
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

# of a schema, its references replaced; a few lines can expand to millions
MOST_PARTS = 20_000
_DEFINED = ("$defs", "definitions")
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
        if next(islice(_parts(given, given), MOST_PARTS, None), None):
            raise ValueError(
                f"with its references it has more than {MOST_PARTS:,} parts"
            )
        schema = dereference_refs(given)
        schema = {key: part for key, part in schema.items() if key not in _DEFINED}
        Draft202012Validator.check_schema(schema)
    except _INVALID as error:
        why = getattr(error, "message", str(error))
        raise InvalidInputError(
            f"The arguments' schema of {name!r} is not valid: {why}"
        ) from error
    if schema.get("type", "object") != "object":
        raise InvalidInputError(f"The arguments of {name!r} must be an object.")
    return {"type": "object", "properties": {}, **schema}


def _parts(
    part: Any, root: Any, within: frozenset[str] = frozenset()
) -> Iterator[bool]:
    """One item for each part of a schema, following references except circular ones."""
    yield True
    if isinstance(part, Mapping):
        ref = part.get("$ref")
        if isinstance(ref, str) and ref not in within:
            yield from _parts(_target(root, ref), root, within | {ref})
        inside = [
            one
            for name, one in part.items()
            if part is not root or name not in _DEFINED
        ]
    else:
        inside = part if isinstance(part, list) else []
    for one in inside:
        yield from _parts(one, root, within)


def _target(root: Any, ref: str) -> Any:
    """The target of `#/$defs/name`; None where it cannot be resolved (reported
    later).
    """
    for name in ref.removeprefix("#/").split("/"):
        root = root.get(name) if isinstance(root, Mapping) else None
    return root
