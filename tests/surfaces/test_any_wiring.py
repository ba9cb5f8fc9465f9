"""Nodes, agents and subgraphs in any order, in a thread of several users: nobody's words are lost
or stored for another one."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langmem_graph.graphs.nodes import create_recall_node, create_write_node
from langmem_graph.memory import Memory
from langmem_graph.middleware import MemoryMiddleware
from langmem_graph.testing import ScriptedChatModel
from tests.support.graphs import chatbot, config

USERS = ("ana", "bob", "eve")


def agent(memory: Memory, **options: Any) -> Any:
    return create_agent(
        ScriptedChatModel(), middleware=[MemoryMiddleware(memory)], **options
    )


PARTS: dict[str, Callable[[Memory], Any]] = {
    "recall": create_recall_node,
    "write": create_write_node,
    "write for a team": lambda memory: create_write_node(memory, user_id="team"),
    "model": lambda _: lambda state: {"messages": [AIMessage("ok")]},
    "agent": agent,
    "agent with a checkpointer": lambda memory: agent(memory, checkpointer=True),
    "subgraph": lambda memory: chatbot(memory, ScriptedChatModel()),
    "subgraph with a checkpointer": lambda memory: chatbot(
        memory, ScriptedChatModel(), checkpointer=True
    ),
}
ANSWER = ("agent", "subgraph")


def wired(memory: Memory, names: list[str]) -> Any:
    builder = StateGraph(MessagesState)
    for place, name in enumerate(names):
        builder.add_node(f"{name} {place}", PARTS[name](memory))
        builder.add_edge(
            f"{names[place - 1]} {place - 1}" if place else START, f"{name} {place}"
        )
    return builder.compile(checkpointer=InMemorySaver())


def some_wiring(chance: random.Random) -> list[str]:
    """One to three parts, one of which stores what is said; LangGraph allows one checkpointer."""
    while True:
        names = chance.choices(list(PARTS), k=chance.randint(1, 3))
        stores = any(name.startswith(ANSWER) for name in names) or {
            "model",
            "write",
        } <= {*names}
        if stores and sum(name.endswith("checkpointer") for name in names) < 2:
            return names


@pytest.mark.parametrize("trials", [8, pytest.param(400, marks=pytest.mark.stress)])
def test_each_user_of_a_thread_has_their_own_words(tmp_path: Path, trials: int) -> None:
    chance = random.Random(trials)
    for trial in range(trials):
        names, turns = (
            some_wiring(chance),
            chance.choices(USERS, k=chance.randint(2, 5)),
        )
        with Memory(tmp_path / str(trial), embeddings="hash") as memory:
            graph = wired(memory, names)
            for number, user in enumerate(turns):
                graph.invoke({"messages": f"{user} says {number}"}, config(user))
            for user in USERS:
                kept = [one["content"] for one in memory.user(user).export()]
                said = [one for one in kept if " says " in one]
                own = [f"{user} says {n}" for n, one in enumerate(turns) if one == user]
                assert sorted(said) == own, (names, turns)
