"""The navigation environment under a filter: no way of rolling out shows what is outside."""

import asyncio
import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory
from langmem_graph.navigation import (
    NavigationEnv,
    arun_navigator,
    run_navigator,
    trl_environment,
    trl_rows,
)
from langmem_graph.testing import ScriptedChatModel
from tests.support.navigation import ANSWER, SEAT, fill

WHERE = {"session_id": "shown"}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("search_conversation", {"query": "seat sister bees"}),
    ("search_records", {"query": "seats bees"}),
    ("get_records", {"record_ids": ["r1", "r2", "rs"]}),
    ("get_conversation", {"message_ids": ["m1", "m2", "ms"]}),
    ("read_file", {"name": "topics/travel.md"}),
]


def stepped(memory: Memory, where: Any) -> str:
    env = NavigationEnv(memory, budget=9, where=where)
    env.reset(SEAT)
    return str([env.step({"name": name, "arguments": given}) for name, given in CALLS])


def walked(memory: Memory, where: Any, is_async: bool = False) -> str:
    asked = [
        {"name": name, "args": given, "id": f"c{n}"}
        for n, (name, given) in enumerate(CALLS)
    ]
    model: Any = ScriptedChatModel(
        script=[AIMessage("", tool_calls=asked), json.dumps(ANSWER)]
    )
    given: Any = (model, memory.user("ana"), SEAT.question)
    if is_async:
        asyncio.run(arun_navigator(*given, where=where))
    else:
        run_navigator(*given, where=where)
    return str(model.requests[-1])


def trained(memory: Memory, where: Any) -> str:
    environment = trl_environment(memory, where=where)()
    environment.reset(**trl_rows([SEAT])[0])
    return str([getattr(environment, name)(**given) for name, given in CALLS])


WAYS: Any = {
    "step": stepped,
    "walk": walked,
    "awalk": lambda memory, where: walked(memory, where, True),
    "train": trained,
}


@pytest.mark.parametrize("way", WAYS)
def test_nothing_outside_the_filter_is_shown(memory: Memory, way: str) -> None:
    ana = fill(memory).user("ana")
    ana.add(
        [{"role": "user", "content": "My seat is by the door.", "id": "ms"}],
        session_id="shown",
    )
    fact = {
        "record_id": "rs",
        "text": "The seat is by the door.",
        "source_message_ids": ["ms"],
    }
    ana.add_records(fact)
    inside, outside = WAYS[way](memory, WHERE), WAYS[way](memory, None)
    for words in ("aisle", "keeps bees", "Eva has bees", "Travel"):
        assert words not in inside.replace("An aisle seat.", "")
        assert words in outside
    for text in (inside, outside):
        assert "My seat is by the door." in text
        assert "The seat is by the door." in text
    with pytest.raises(InvalidInputError, match="As in where="):
        WAYS[way](memory, {"$bad": 1})
