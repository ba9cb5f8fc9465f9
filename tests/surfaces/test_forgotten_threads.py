"""What was forgotten does not come back from a thread whose checkpoints still have it."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.types import Command, interrupt

from langmem_graph import Memory, MemoryMiddleware
from langmem_graph.errors import StorageError
from langmem_graph.graphs import create_write_node
from langmem_graph.memory import UserMemory
from langmem_graph.testing import ScriptedChatModel
from tests.conftest import said
from tests.support.graphs import WAYS, chatbot, config, run

SECRET = "My serial number is ZZ-1."
WRONG = "Ana eats nuts all day."
CALL = {"name": "ask", "args": {}, "id": "c1"}


@tool
def ask() -> str:
    """Ask the user."""
    return str(interrupt("Go on?"))


def _nodes(memory: Memory) -> Any:
    return chatbot(memory, ScriptedChatModel(), checkpointer=InMemorySaver())


def _agent(memory: Memory) -> Any:
    middleware = [MemoryMiddleware(memory)]
    return create_agent(
        ScriptedChatModel(), middleware=middleware, checkpointer=InMemorySaver()
    )


def _agent_in_a_graph(memory: Memory) -> Any:
    """The agent's own state begins anew with every turn."""
    builder = StateGraph(MessagesState)
    agent = create_agent(ScriptedChatModel(), middleware=[MemoryMiddleware(memory)])
    builder.add_node("agent", agent).add_edge(START, "agent")
    return builder.compile(checkpointer=InMemorySaver())


def _functional(memory: Memory) -> Any:
    write = create_write_node(memory)

    @entrypoint(checkpointer=InMemorySaver())
    def graph(asked: Any, *, previous: Any = None, config: RunnableConfig) -> Any:
        new = [HumanMessage(asked["messages"]), AIMessage("ok")]
        talk = add_messages(previous or [], new)  # type: ignore[arg-type]
        write.invoke({"messages": talk}, config)
        return entrypoint.final(value={"messages": talk}, save=talk)

    return graph


def _stored(user: UserMemory) -> list[str]:
    return [one["content"] for one in user.export()]


def _forget_message(user: UserMemory) -> None:
    user.forget(
        message=next(one["id"] for one in user.export() if one["content"] == SECRET)
    )


def _forget_session(user: UserMemory) -> None:
    user.forget(session="t")


def _erase(user: UserMemory) -> None:
    user.erase()


@pytest.mark.parametrize("make", [_nodes, _agent])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("remove", [_forget_message, _forget_session, _erase])
def test_it_stays_forgotten(
    memory: Memory,
    make: Callable[[Memory], Any],
    way: str,
    remove: Callable[[UserMemory], None],
) -> None:
    graph, user = make(memory), memory.user("ana")
    run(graph, way, {"messages": SECRET}, config(thread="t"))
    assert SECRET in _stored(user)
    remove(user)
    end = run(graph, way, {"messages": "Hello again."}, config(thread="t"))
    assert SECRET in [message.text for message in end["messages"]], (
        "the checkpoint has it"
    )
    assert SECRET not in _stored(user)
    assert "Hello again." in _stored(user)
    assert SECRET not in user.recall("serial number").context


@pytest.mark.parametrize("make", [_agent_in_a_graph, _functional])
def test_an_erased_thread_stays_erased_where_no_state_tells_what_was_stored(
    memory: Memory, make: Callable[[Memory], Any]
) -> None:
    graph, user = make(memory), memory.user("ana")
    for text in (SECRET, "And tea."):
        graph.invoke({"messages": text}, config(thread="t"))
    user.erase()
    graph.invoke({"messages": "Hello again."}, config(thread="t"))
    assert [one for one in _stored(user) if "ok" not in one] == ["Hello again."]
    assert len(_stored(user)) == 2


@pytest.mark.parametrize("make", [_nodes, _agent])
@pytest.mark.parametrize("turns", [0, 12])
def test_an_answer_removed_from_an_erased_thread_brings_nothing_back(
    memory: Memory, make: Callable[[Memory], Any], turns: int
) -> None:
    graph, user = make(memory), memory.user("ana")
    earlier = [(role, f"{n}") for n in range(turns) for role in ("user", "assistant")]
    graph.invoke({"messages": [*earlier, ("user", SECRET)]}, config(thread="t"))
    end = graph.invoke({"messages": "And tea."}, config(thread="t"))
    user.erase()
    graph.update_state(
        config(thread="t"), {"messages": [RemoveMessage(end["messages"][-1].id)]}
    )
    graph.invoke({"messages": "Hello again."}, config(thread="t"))
    assert _stored(user)[0] == "Hello again."


@pytest.mark.parametrize("erase", [False, True])
def test_a_message_that_cannot_be_stored_is_tried_again_and_brings_nothing_back(
    reopen: Callable[..., Memory], erase: bool
) -> None:
    refused = ["refused"]

    def redact(text: str) -> str:
        if text in refused:
            raise ConnectionError("the server is out")
        return text

    memory = reopen(redact=redact)
    graph, user = _nodes(memory), memory.user("ana")
    said = (SECRET, "refused", "And tea.")
    for text in said:
        graph.invoke({"messages": text}, config(thread="t"))
    assert {SECRET, "And tea."} == set(_stored(user)) - {"ok"}
    if erase:
        user.erase()
    refused.clear()
    graph.invoke({"messages": "Hello again."}, config(thread="t"))
    told = ["refused", "Hello again."]  # and what was never stored was not erased
    assert set(_stored(user)) - {"ok"} == set(told if erase else [*said, *told])


def test_a_turn_that_was_not_stored_is_stored_with_the_next(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, user = _nodes(memory), memory.user("ana")

    def full(*_: Any, **__: Any) -> None:
        raise StorageError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr("langmem_graph.storage.add_messages.append", full)
        graph.invoke({"messages": SECRET}, config(thread="t"))
    graph.invoke({"messages": "Hello again."}, config(thread="t"))
    assert {SECRET, "Hello again."} <= set(_stored(user))


def test_what_was_given_before_and_is_gone_is_named_and_not_stored(
    memory: Memory,
) -> None:
    user, talk = memory.user("ana"), [said("one", id="m1"), said("two", id="m2")]
    user.add(talk, session_id="s")
    user.forget(message="m1")
    report = user.add(
        [*talk, said("three", id="m3")], session_id="s", given_before=["m1", "m2"]
    )
    assert (report.forgotten, report.already_known, report.stored) == (
        ["m1"],
        ["m2"],
        ["m3"],
    )
    assert user.add(talk, session_id="s").stored == ["m1"], (
        "the application's word counts"
    )
    user.erase()
    assert user.add(talk, session_id="s", given_before=["m1", "m2"]).forgotten == [
        "m1",
        "m2",
    ]
    assert memory.users() == [], "and no memory of an erased user is made"


@pytest.mark.parametrize("way", ["hide", "correct"])
def test_a_record_taken_away_during_an_interrupt_is_not_shown_after_it(
    reopen: Callable[..., Memory], way: str
) -> None:
    plan = {"intent": "lookup", "sure": False}
    memory = reopen(model=ScriptedChatModel(answers={"GoalPlan": plan}))
    user = memory.user("ana")
    user.add(said("I eat nuts now and then.", id="m1"), session_id="old")
    user.add_records([{"text": WRONG, "source_message_ids": ["m1"], "record_id": "r1"}])
    model = ScriptedChatModel(script=[AIMessage("", tool_calls=[CALL]), "Done."])
    middleware = [MemoryMiddleware(memory, mode="auto")]
    agent: Any = create_agent(
        model, [ask], middleware=middleware, checkpointer=InMemorySaver()
    )
    agent.invoke({"messages": "Which nuts does Ana eat?"}, config())
    assert WRONG in model.requests[-1][0].text
    if way == "hide":
        user.hide("r1")
    else:
        user.correct("r1", "Ana eats no nuts.")
    agent.invoke(Command(resume="yes"), config())
    assert WRONG not in model.requests[-1][0].text
