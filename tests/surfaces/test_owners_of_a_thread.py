"""Several memories and users in one graph, and what a graph's state says of them."""

from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import before_model
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langmem_graph import Memory, MemoryMiddleware
from langmem_graph.graphs import MemoryState, create_recall_node, create_write_node
from langmem_graph.testing import ScriptedChatModel
from tests.conftest import let_go, said
from tests.support.graphs import config


def _kept(memory: Memory, user: str) -> list[str]:
    return [one["content"] for one in memory.user(user).export()]


def _graph(*nodes: Any) -> Any:
    """A model, and then these nodes; or before it those that recall."""
    model = ScriptedChatModel(script=lambda asked: _answer(asked[-1].text))
    builder = StateGraph(MessagesState)
    chat = ("chat", lambda state: {"messages": [model.invoke(state["messages"])]})
    before = [(f"n{n}", one) for n, one in enumerate(nodes) if one.name == "recall"]
    after = [(f"n{n}", one) for n, one in enumerate(nodes) if one.name != "recall"]
    builder.add_sequence([*before, chat, *after])
    builder.add_edge(START, (before or [chat])[0][0])
    return builder.compile(checkpointer=InMemorySaver())


def _answer(asked: str) -> str:
    if "PIN" in asked:
        raise RuntimeError("down")
    return f"{asked} Fine."


def _team(config: Any) -> str:
    return f"team-{config['configurable']['team']}"


TURNS = ("Tea.", "Rice.")
SAID = ["Tea.", "Tea. Fine.", "Rice.", "Rice. Fine."]


@pytest.mark.parametrize(
    "users", [(None, _team), (_team, None), ("a", "b"), (_team, lambda config: "all")]
)
def test_every_write_node_of_a_graph_stores_for_its_user(
    memory: Memory, users: Any
) -> None:
    graph = _graph(*(create_write_node(memory, user_id=user) for user in users))
    for text in TURNS:
        graph.invoke({"messages": text}, config("ana", team="x"))
    for user in users:
        named = user(config(team="x")) if callable(user) else user or "ana"
        assert _kept(memory, named) == SAID


def test_every_memory_of_a_graph_stores_the_turn(
    memory: Memory, tmp_path: Path
) -> None:
    other = Memory(tmp_path / "other", embeddings="hash")
    graph = _graph(create_write_node(memory), create_write_node(other))
    graph.invoke({"messages": TURNS[0]}, config())
    memory.user("ana").erase()
    graph.invoke({"messages": TURNS[1]}, config())
    assert (_kept(memory, "ana"), _kept(other, "ana")) == (SAID[2:], SAID)
    let_go(other)


def test_two_functions_that_name_the_user_give_nobody_the_words_of_another(
    memory: Memory,
) -> None:
    graph = _graph(
        create_recall_node(
            memory, user_id=lambda config: config["configurable"]["user_id"]
        ),
        create_write_node(
            memory, user_id=lambda config: str(config["configurable"]["user_id"])
        ),
    )
    graph.invoke({"messages": "Tea."}, config("ana"))
    with pytest.raises(RuntimeError):
        graph.invoke({"messages": "My PIN is 4711."}, config("ana"))
    for text in ("Rice.", "Beans."):
        graph.invoke({"messages": text}, config("bob"))
    assert _kept(memory, "bob") == ["Rice.", "Rice. Fine.", "Beans.", "Beans. Fine."]


@pytest.mark.parametrize(
    "owner",
    [
        "junk",
        ["ana"],
        {"user": "ana"},
        {"user": "ana", "since": {}},
        {"other": {}},
        {"other": {"last": [1], "since": {}}},
        {"nodes": {"user": "ana", "since": -3}},
        {"nodes": {"user": "ana", "stored": "m1", "refused": 7}},
        {"nodes": {"user": "ana", "stored": {"x": "m1"}}},
    ],
)
def test_a_client_that_sends_an_odd_owner_is_served(memory: Memory, owner: Any) -> None:
    builder = StateGraph(MemoryState)
    builder.add_node("write", create_write_node(memory)).add_edge(START, "write")
    graph = builder.compile(checkpointer=InMemorySaver())
    asked = {"messages": [HumanMessage("I like tea.")], "memory_owner": owner}
    done = graph.invoke(asked, config())
    assert done["memory_owner"]["nodes"]["user"] == "ana"
    graph.invoke({"messages": "And rice."}, config())
    assert _kept(memory, "ana") == ["I like tea.", "And rice."]


@pytest.mark.parametrize(
    "first",
    [("system", "You are kind."), HumanMessage([{"type": "image", "url": "x"}])],
)
def test_what_every_conversation_begins_with_does_not_join_them(
    memory: Memory, first: Any
) -> None:
    write = create_write_node(memory)
    for text in TURNS:
        write.invoke(
            {"messages": [first, ("user", text), ("assistant", "ok")]},
            config(thread=None),
        )
    sessions = memory.user("ana").sessions()
    assert len(sessions) == len(TURNS)


def test_equal_ids_in_two_conversations_at_once_share_no_context(
    memory: Memory,
) -> None:
    facts = ("I take an aisle seat.", "I am allergic to peanuts.")
    memory.user("ana").add(list(map(said, facts)), session_id="old")
    both = Barrier(2, timeout=20)

    @before_model
    def together(state: Any, runtime: Any) -> None:
        both.wait()

    model = ScriptedChatModel(script=lambda asked: asked[0].text)
    middleware = [MemoryMiddleware(memory, k=1), together]
    agent: Any = create_agent(model, middleware=middleware)
    asked = ("An aisle seat?", "Allergic to peanuts?")
    ends = agent.batch(
        [{"messages": HumanMessage(q, id="1")} for q in asked], config(thread=None)
    )
    assert [
        fact in end["messages"][-1].text for fact, end in zip(facts, ends, strict=True)
    ] == [True, True]


def test_a_memory_opened_for_each_request_keeps_two_users_of_a_thread_apart(
    tmp_path: Path,
) -> None:
    saver = InMemorySaver()
    for user, text in (
        ("ana", "My PIN is 4711."),
        ("bob", "Hello."),
        ("ana", "And me?"),
    ):
        with Memory(tmp_path, embeddings="hash") as memory:
            agent = create_agent(
                ScriptedChatModel(), middleware=[MemoryMiddleware(memory)]
            )
            builder = StateGraph(MessagesState)
            builder.add_node("agent", agent).add_edge(START, "agent")
            graph = builder.compile(checkpointer=saver)
            graph.invoke({"messages": text}, config(user))
            if user == "bob":
                assert _kept(memory, "bob") == ["Hello.", "ok"]
            kept = _kept(memory, "ana")
    assert kept == ["My PIN is 4711.", "ok", "And me?", "ok"]


def test_an_agent_and_a_node_after_it_give_nobody_the_words_of_another(
    memory: Memory,
) -> None:
    """The outer graph's state keeps what was known of the agent's surface a turn ago."""
    builder = StateGraph(MessagesState)
    agent = create_agent(ScriptedChatModel(), middleware=[MemoryMiddleware(memory)])
    builder.add_node("agent", agent).add_node("write", create_write_node(memory))
    builder.add_edge(START, "agent").add_edge("agent", "write")
    graph = builder.compile(checkpointer=InMemorySaver())
    for user, text in (("ana", "Tea."), ("bob", "My PIN is 4711."), ("ana", "Rice.")):
        graph.invoke({"messages": text}, config(user))
    assert _kept(memory, "ana") == ["Tea.", "ok", "Rice.", "ok"]
    assert _kept(memory, "bob") == ["My PIN is 4711.", "ok"]
