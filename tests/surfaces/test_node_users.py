"""Whose memory a node uses, and in which session."""

import asyncio
import operator
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.types import CachePolicy, Command, interrupt
from langgraph_sdk.auth.types import StudioUser
from typing_extensions import TypedDict

from langmem_graph.errors import InvalidInputError, MissingUserError
from langmem_graph.graphs.nodes import (
    MemoryState,
    create_recall_node,
    create_write_node,
    with_memory,
)
from langmem_graph.graphs.recall_graph import create_recall_graph
from langmem_graph.graphs.user_identity import THREAD_OWNERS
from langmem_graph.memory import Memory
from langmem_graph.middleware import MemoryMiddleware
from langmem_graph.testing import ScriptedChatModel
from tests.conftest import said
from tests.support.graphs import WAYS, chatbot, config, run


def test_no_user_id_names_the_three_places(memory: Memory) -> None:
    graph = chatbot(memory, ScriptedChatModel())
    for way in WAYS:
        with pytest.raises(MissingUserError) as problem:
            run(graph, way, {"messages": "hi"}, config(user=None))
        for place in ("configurable", "context", "authentication"):
            assert place in str(problem.value)


@dataclass
class Context:
    user_id: str = ""
    language: str = "en"


def test_the_user_id_comes_from_any_of_the_three_places(memory: Memory) -> None:
    def write(user: Any = None, context: Any = None, **more: Any) -> None:
        builder = StateGraph(MessagesState, context_schema=Context)
        builder.add_node("write", create_write_node(memory))
        builder.add_edge(START, "write")
        graph = builder.compile()
        graph.invoke({"messages": "hi"}, config(user, **more), context=context)

    write(user="a")
    write(user=7)
    write(context=Context(user_id="b"))
    write(context={"user_id": "c"})
    write(langgraph_auth_user_id="d")
    write(user="e", context=Context(user_id="e"), langgraph_auth_user_id="e")
    write(user="f", langgraph_auth_user_id="")  # a server without authentication
    studio = StudioUser("langgraph-studio-user")
    write(user="g", langgraph_auth_user_id=studio.identity, langgraph_auth_user=studio)
    for user in ("a", 7, "b", "c", "d", "e", "f", "g"):
        assert len(memory.user(user).export()) == 1, user


@pytest.mark.parametrize(
    "places",
    [
        {"user": "victim", "langgraph_auth_user_id": "mallory"},
        {"user": "victim", "context": {"user_id": "mallory"}},
        {"user": "victim", "langgraph_auth_user_id": "langgraph-studio-user"},
        {  # as a server with authentication sets it
            "user": "victim",
            "langgraph_auth_user_id": "mallory",
            "langgraph_auth_user": SimpleNamespace(
                identity="mallory", is_authenticated=True
            ),
        },
    ],
)
def test_places_that_disagree_are_refused(
    memory: Memory, places: dict[str, Any]
) -> None:
    memory.user("victim").add(said("secret"), session_id="s")
    builder = StateGraph(MemoryState, context_schema=Context)
    builder.add_node("recall", create_recall_node(memory))
    builder.add_edge(START, "recall")
    context = places.pop("context", None)
    with pytest.raises(InvalidInputError, match="do not agree") as problem:
        builder.compile().invoke(
            {"messages": "secret?"}, config(**places), context=context
        )
    assert "victim" not in str(problem.value)


def test_the_application_may_decide_the_user(memory: Memory) -> None:
    fixed = chatbot(memory, ScriptedChatModel(), user_id="house")
    fixed.invoke({"messages": "fixed"}, config(user="other"))
    by_tenant = chatbot(
        memory,
        ScriptedChatModel(),
        user_id=lambda config: (
            f"{config['configurable']['tenant']}/{config['configurable']['who']}"
        ),
    )
    by_tenant.invoke(
        {"messages": "derived"}, config(user=None, tenant="acme", who="bo")
    )
    assert memory.user("house").export()[0]["content"] == "fixed"
    assert memory.user("acme/bo").export()[0]["content"] == "derived"
    assert not memory.user("other").export()


def test_the_session_is_session_id_else_thread_else_how_it_begins(
    memory: Memory,
) -> None:
    graph = chatbot(memory, ScriptedChatModel(script=["x"]))
    graph.invoke({"messages": "1"}, config(session_id="chosen"))
    graph.invoke({"messages": "2"}, config(thread="thread"))
    conversation = [("user", "3"), ("assistant", "x"), ("user", "4")]
    graph.invoke({"messages": conversation[:1]}, config(thread=None))
    graph.invoke({"messages": conversation}, config(thread=None))
    sessions = memory.user("ana").sessions()
    assert [s.session_id for s in sessions[:2]] == ["chosen", "thread"]
    assert [s.messages for s in sessions] == [2, 2, 4]


def test_a_thread_that_two_users_share_keeps_their_words_apart(memory: Memory) -> None:
    graph = chatbot(
        memory, ScriptedChatModel(script=["ok"]), checkpointer=InMemorySaver()
    )
    for user, text in (
        ("ana", "my PIN is 4711"),
        ("bob", "hello"),
        ("bob", "again"),
        ("ana", "me"),
    ):
        graph.invoke({"messages": text}, config(user))
    kept = {
        user: [m["content"] for m in memory.user(user).export()]
        for user in ("ana", "bob")
    }
    assert kept["bob"] == ["hello", "ok", "again", "ok"]
    assert kept["ana"] == ["my PIN is 4711", "ok", "me", "ok"]


@pytest.mark.parametrize(
    ("removed", "then", "kept"),
    [
        # from which on the thread is bob's
        ("hello", ["bob"], {"hello", "ok", "again"}),
        ("ok", ["bob"], {"hello", "ok", "again"}),
        ("ok", ["bob", "eve"], {"again", "ok"}),
    ],
)
def test_a_message_removed_from_a_thread_gives_nobody_the_words_of_another(
    memory: Memory, removed: str, then: list[str], kept: set[str]
) -> None:
    script = [RuntimeError("down"), "ok"]
    graph = chatbot(
        memory, ScriptedChatModel(script=script), checkpointer=InMemorySaver()
    )
    # so that two users' questions stand beside each other
    with pytest.raises(RuntimeError):
        graph.invoke({"messages": "my PIN is 4711"}, config("ana"))
    talk = graph.invoke({"messages": "hello"}, config("bob"))["messages"]
    gone = [RemoveMessage(m.id) for m in talk if m.content == removed]
    graph.update_state(config("bob"), {"messages": gone})
    for user in then[-1:]:
        graph.invoke({"messages": "again"}, config(user))
    assert {m["content"] for m in memory.user(then[-1]).export()} == kept


def test_a_thread_of_two_users_around_an_agent_keeps_their_words_apart(
    memory: Memory,
) -> None:
    """The agent's own state, which tells whose the thread is, begins anew with every turn."""
    model = ScriptedChatModel(script=["ok"])
    builder = StateGraph(MessagesState)
    for name in ("first", "second"):
        agent = create_agent(model, middleware=[MemoryMiddleware(memory)], name=name)
        builder.add_node(name, agent)
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    graph = builder.compile(checkpointer=InMemorySaver())
    for user, text in (
        ("ana", "my PIN is 4711"),
        ("bob", "hello"),
        ("bob", "you?"),
        ("ana", "me"),
    ):
        graph.invoke({"messages": text}, config(user))
    kept = {
        user: [m["content"] for m in memory.user(user).export()]
        for user in ("ana", "bob")
    }
    assert kept["bob"] == ["hello", "ok", "ok", "you?", "ok", "ok"]
    assert kept["ana"] == ["my PIN is 4711", "ok", "ok", "me", "ok", "ok"]


def test_another_conversation_in_a_thread_of_the_same_name_is_kept(
    memory: Memory,
) -> None:
    for user in ("ana", "bob"):
        talk = [HumanMessage(f"I am {user}."), AIMessage("Hi."), HumanMessage("Tea?")]
        create_write_node(memory).invoke({"messages": talk}, config(user))
    assert [m["content"] for m in memory.user("bob").export()] == [
        "I am bob.",
        "Hi.",
        "Tea?",
    ]


class WithoutIds(TypedDict):
    messages: Annotated[list[Any], operator.add]


def test_words_are_kept_apart_in_a_thread_whose_messages_have_no_id(
    memory: Memory,
) -> None:
    builder = StateGraph(WithoutIds)
    builder.add_sequence([("chat", lambda _: {"messages": [("assistant", "ok")]})])
    builder.add_node("write", create_write_node(memory))
    builder.add_edge(START, "chat")
    builder.add_edge("chat", "write")
    graph = builder.compile(checkpointer=InMemorySaver())
    for user, text in (("ana", "yes"), ("bob", "yes"), ("bob", "again"), ("ana", "me")):
        graph.invoke({"messages": [("user", text)]}, config(user))
    kept = {
        user: [m["content"] for m in memory.user(user).export()]
        for user in ("ana", "bob")
    }
    assert kept == {
        "ana": ["yes", "ok", "me", "ok"],
        "bob": ["yes", "ok", "again", "ok"],
    }


def answer_unless_down(messages: list[Any]) -> str:
    if "PIN" in messages[-1].text:
        raise RuntimeError("down")
    return "ok"


def nodes_around_a_model(memory: Memory, key: str, first: str) -> Any:
    """A chatbot whose conversation is in `key`; the node `first` runs before the model."""

    def chat(state: Any) -> dict[str, Any]:
        return {key: [AIMessage(answer_unless_down(state[key]))]}

    made = create_recall_node if first == "recall" else create_write_node
    builder = StateGraph(TypedDict("Talk", {key: Annotated[list[Any], add_messages]}))  # type: ignore[misc]
    write = create_write_node(memory, messages_key=key)
    before = made(memory, messages_key=key)
    builder.add_sequence([(first, before), ("chat", chat), ("write", write)])
    builder.add_edge(START, first)
    return builder.compile(checkpointer=InMemorySaver())


def agent_with_memory(memory: Memory, *_: str) -> Any:
    model = ScriptedChatModel(script=answer_unless_down)
    return create_agent(
        model, middleware=[MemoryMiddleware(memory)], checkpointer=InMemorySaver()
    )


@pytest.mark.parametrize("talk", [("hi",), ()])
@pytest.mark.parametrize(
    ("make", "key", "first"),
    [
        (nodes_around_a_model, "messages", "recall"),
        (nodes_around_a_model, "messages", "write before"),
        (nodes_around_a_model, "talk", "recall"),
        (agent_with_memory, "messages", ""),
    ],
)
def test_what_was_never_answered_goes_into_no_other_memory(
    memory: Memory, make: Any, key: str, first: str, talk: tuple[str, ...]
) -> None:
    graph = make(memory, key, first)
    for text in talk:
        graph.invoke({key: [("user", text)]}, config("ana"))
    with pytest.raises(RuntimeError):
        graph.invoke({key: [("user", "my PIN is 4711")]}, config("ana"))
    for text in ("hello", "again"):
        graph.invoke({key: [("user", text)]}, config("bob"))
    kept = [m["content"] for m in memory.user("bob").export()]
    assert kept == ["hello", "ok", "again", "ok"]


def test_a_message_without_an_id_does_not_hide_those_before_it(memory: Memory) -> None:
    talk = [
        HumanMessage("Hello.", id="h"),
        AIMessage("Hi.", id="a"),
        HumanMessage("Tea?"),
    ]
    create_write_node(memory).invoke({"messages": talk}, config())
    assert [m["content"] for m in memory.user("ana").export()] == [
        "Hello.",
        "Hi.",
        "Tea?",
    ]


def test_what_a_failed_turn_recalled_is_shown_to_nobody_else(memory: Memory) -> None:
    memory.user("ana").add(said("ana's PIN is 4711"), session_id="old")
    model = ScriptedChatModel(script=[RuntimeError("down"), "hello bob"])

    def chat(state: MemoryState) -> dict[str, Any]:
        return {"messages": [model.invoke(with_memory(state))]}

    builder = StateGraph(MemoryState)
    builder.add_node("recall", create_recall_node(memory))
    builder.add_node("chat", chat)
    builder.add_conditional_edges(
        START,
        lambda state: (
            "recall" if "PIN" in str(state["messages"][-1].content) else "chat"
        ),
    )
    builder.add_edge("recall", "chat")
    graph = builder.compile(checkpointer=InMemorySaver())
    with pytest.raises(RuntimeError):
        graph.invoke({"messages": "PIN?"}, config("ana"))
    graph.invoke({"messages": "hi"}, config("bob"))
    assert "4711" in str(model.requests[0])
    assert "4711" not in str(model.requests[1])


async def test_two_users_at_once_do_not_mix(memory: Memory) -> None:
    model = ScriptedChatModel(script=["ok"])
    graph = chatbot(memory, model, checkpointer=InMemorySaver())

    async def talk(user: str) -> None:
        for n in range(8):
            mine = config(user, thread=f"{user}-{n}")
            await graph.ainvoke({"messages": f"my secret is {user}{n}"}, mine)

    await asyncio.gather(talk("acme"), talk("acme-corp"))
    for user, other in (("acme", "acme-corp"), ("acme-corp", "acme")):
        kept = " ".join(m["content"] for m in memory.user(user).export())
        assert f"my secret is {user}7" in kept
        assert f"my secret is {other}1" not in kept
    for request in model.requests:
        owner = "acme-corp" if "acme-corp" in str(request[-1].content) else "acme"
        for message in request:
            assert ("acme-corp" in str(message.content)) <= (owner == "acme-corp")


class TeamMemory(MemoryMiddleware):
    """A second one in an agent needs a name of its own."""


@pytest.mark.parametrize("team_first", [False, True])
@pytest.mark.parametrize("kind", ["agent", "nodes"])
def test_a_turn_is_stored_for_a_user_and_for_a_team(
    memory: Memory, kind: str, team_first: bool
) -> None:
    model = ScriptedChatModel(script=["ok", "sure"])
    if kind == "agent":
        two = [MemoryMiddleware(memory), TeamMemory(memory, user_id="team")]
        middleware = two[::-1] if team_first else two
        graph: Any = create_agent(
            model, middleware=middleware, checkpointer=InMemorySaver()
        )
    else:
        builder = StateGraph(MemoryState)
        builder.add_node(
            "chat", lambda state: {"messages": [model.invoke(state["messages"])]}
        )
        names = ["own", "team"]
        for name, user in zip(names, (None, "team"), strict=True):
            builder.add_node(name, create_write_node(memory, user_id=user))
        first, second = names[::-1] if team_first else names
        for start, end in ((START, "chat"), ("chat", first), (first, second)):
            builder.add_edge(start, end)
        graph = builder.compile(checkpointer=InMemorySaver())
    for text in ("I like tea.", "And rice."):
        graph.invoke({"messages": text}, config("ana"))
    for user in ("ana", "team"):
        kept = [m["content"] for m in memory.user(user).export()]
        assert kept == ["I like tea.", "ok", "And rice.", "sure"], user


@pytest.mark.parametrize("same_process", [True, False])
def test_a_new_middleware_gives_nobody_the_words_of_another(
    memory: Memory, same_process: bool
) -> None:
    saver = InMemorySaver()
    for middleware, user, text in (
        (MemoryMiddleware(memory), "ana", "my PIN is 4711"),
        (TeamMemory(memory), "bob", "hello"),
        (TeamMemory(memory), "bob", "again"),
    ):
        model = ScriptedChatModel(script=["ok"])
        agent = create_agent(model, middleware=[middleware], checkpointer=saver)
        agent.invoke({"messages": text}, config(user))
        if not same_process:
            THREAD_OWNERS._owners.clear()
    assert [m["content"] for m in memory.user("bob").export()] == [
        "hello",
        "ok",
        "again",
        "ok",
    ]


@pytest.mark.parametrize("way", WAYS)
def test_a_cache_of_nodes_gives_nobody_the_memory_of_another(
    memory: Memory, way: str
) -> None:
    """Clients may send equal messages with equal ids; LangGraph's key is a node's input alone."""
    shown: list[str] = []

    def chat(state: MemoryState) -> dict[str, Any]:
        shown.append(state["memory_context"])
        return {"messages": [AIMessage("Yes.", id="a1")]}

    builder = StateGraph(MessagesState)
    builder.add_node("recall", create_recall_node(memory), cache_policy=CachePolicy())
    builder.add_node("chat", chat)
    builder.add_node("write", create_write_node(memory), cache_policy=CachePolicy())
    builder.add_edge(START, "recall").add_edge("recall", "chat").add_edge(
        "chat", "write"
    )
    graph = builder.compile(cache=InMemoryCache())
    for user, place in (("ana", "Porto"), ("bob", "Berlin")):
        memory.user(user).add([said(f"I live in {place}.")], session_id="before")
        asked = HumanMessage("Where do I live?", id="q1")
        state = run(graph, way, {"messages": [asked]}, config(user))
        assert place in shown[-1] and "memory_run" not in state
        assert memory.user(user).doctor().messages == 3
    assert "Porto" not in shown[-1]


@pytest.mark.parametrize("kind", ["node", "graph"])
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_another_user_who_resumes_a_run_sees_nothing_recalled_for_the_first(
    reopen: Callable[..., Memory], way: str, kind: str
) -> None:
    memory = reopen(model=ScriptedChatModel())
    memory.user("ana").add(said("My dog is called Pixel."), session_id="old")
    seen: list[str] = []

    def chat(state: MemoryState) -> dict[str, Any]:
        interrupt("go on?")
        seen.append("\n".join(str(message.content) for message in with_memory(state)))
        return {}

    recall: Any = create_recall_node(memory)
    if kind == "graph":
        recall = create_recall_graph(memory, mode="fast")
    builder = StateGraph(MemoryState)
    builder.add_node("recall", recall)
    builder.add_node("chat", chat)
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "chat")
    graph = builder.compile(checkpointer=InMemorySaver())
    for thread, resumed_by in (("a", "bob"), ("b", "ana")):
        run(graph, way, {"messages": "What is my dog called?"}, config("ana", thread))
        run(graph, way, Command(resume=True), config(resumed_by, thread))
    assert ["Pixel" in text for text in seen] == [False, True]
