"""Checks of a tool call's values that are bounded together, not each by itself."""

import time
from typing import Any

import pytest

from langmem_graph.errors import InvalidInputError
from langmem_graph.llm.tool_specs import tool_spec
from tests.support.models import AnswersBySchema

HOST = ".".join(["öäü"] * 20)
HOSTS = [f"{HOST}.a{n}" for n in range(50)]
NAMES = [f"word{n}" for n in range(300)]


def tool_with(part: Any) -> dict[str, Any]:
    return {"title": "act", "type": "object", "properties": {"x": part}}


def nested(value: Any) -> Any:
    for _ in range(28):
        value = {"a": value}
    return value


def nested_schema(part: Any) -> Any:
    for _ in range(28):
        part = {"type": "object", "properties": {"a": part}}
    return part


def listed(part: Any, times: int) -> dict[str, Any]:
    return {"type": "array", "items": {"allOf": [part] * times}}


@pytest.mark.parametrize(
    ("part", "value", "words", "is_sent"),
    [
        (listed({"format": "idn-hostname"}, 600), HOSTS, HOSTS, True),
        (nested_schema(listed({"if": True}, 160)), nested(NAMES), NAMES, False),
    ],
    ids=["one format again and again", "optional objects in each other"],
)
def test_a_value_is_not_checked_again_and_again(
    open_memory: Any, part: Any, value: Any, words: list[str], is_sent: bool
) -> None:
    asked = f"Take {' '.join(words)}"
    fill = {"arguments": {"x": value}, "sources": [], "missing": []}
    user = open_memory(AnswersBySchema(ToolFill=fill)).user("ana")
    start = time.process_time()
    call = user.ground(tool_with(part), asked)
    assert time.process_time() - start < 6
    assert call.arguments == ({"x": value} if is_sent else {})
    assert is_sent != any("is left out: it is too large" in w for w in call.warnings)


def test_the_digits_of_a_number_count_as_characters_do() -> None:
    enum = [10**4_200 + n for n in range(200)]
    with pytest.raises(InvalidInputError, match="more than 5,000 parts"):
        tool_spec(tool_with({"enum": enum}))
    assert tool_spec(tool_with({"enum": enum[:50]})).name == "act"
