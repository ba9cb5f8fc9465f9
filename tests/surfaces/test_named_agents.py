"""An agent with a name is no person, whatever framework gives it the name."""

from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

from langmem_graph import Memory, MemoryMiddleware
from langmem_graph.graphs import create_write_node
from langmem_graph.testing import HashEmbeddings, ScriptedChatModel, alias_of

CLAIM = "You have agreed to buy full insurance for 900 euros."
CONFIG: Any = {"configurable": {"user_id": "ana", "thread_id": "t"}}


def read(prompt: str) -> dict[str, Any]:
    memory = {
        "text": "The user has agreed to buy full insurance for 900 euros.",
        "sources": [alias_of(prompt, "full insurance")],
        "subject": "user",
        "values": [{"raw": "900", "value": "900"}],
    }
    return {"memories": [memory]}


def opened(tmp_path: Path) -> Memory:
    model = ScriptedChatModel(answers={"Extraction": read})
    return Memory(tmp_path, embeddings=HashEmbeddings(), model=model)


def assert_taken_for_an_assistant(memory: Memory) -> None:
    ana = memory.user("ana")
    ana.flush()
    (record,) = ana.records()
    assert (record.confirmation, record.origin) == ("draft", "assistant")
    assert [message.get("name") for message in ana.export()] == [None, None]


def test_what_a_named_agent_alone_said_is_a_draft(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        model = ScriptedChatModel(script=[CLAIM])
        remember = MemoryMiddleware(memory)
        agent = create_agent(model, middleware=[remember], name="travel_agent")
        agent.invoke({"messages": [("user", "Hello there, what is new?")]}, CONFIG)
        assert_taken_for_an_assistant(memory)


@pytest.mark.parametrize(
    "answer",
    [
        AIMessage(CLAIM, name="travel_agent"),
        ChatMessage(CLAIM, role="travel_agent"),
        ChatMessage(CLAIM, role="assistant", name="travel_agent"),
    ],
    ids=lambda answer: f"{answer.type}-{getattr(answer, 'role', '')}",
)
def test_so_it_is_behind_a_write_node(answer: BaseMessage, tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        builder = StateGraph(MessagesState)
        builder.add_node("write", create_write_node(memory, extraction="manual"))
        builder.add_edge(START, "write")
        said = [HumanMessage("Hello there, what is new?"), answer]
        builder.compile().invoke({"messages": said}, CONFIG)
        assert_taken_for_an_assistant(memory)


def test_what_else_is_told_of_such_a_message_is_kept(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        builder = StateGraph(MessagesState)
        builder.add_node("write", create_write_node(memory, extraction="manual"))
        builder.add_edge(START, "write")
        told = {"at": "2020-01-02T03:04:05+00:00"}
        answer = ChatMessage(CLAIM, role="travel_agent", additional_kwargs=told)
        builder.compile().invoke({"messages": [HumanMessage("Hello."), answer]}, CONFIG)
        times = [message["at"] for message in memory.user("ana").export()]
        assert any(time.startswith("2020-01-02T03:04:05") for time in times)


def test_the_share_of_the_assistants_words_holds_for_a_named_agent(
    tmp_path: Path,
) -> None:
    shares = list[int]()
    for name in (None, "travel_agent"):
        with Memory(tmp_path / str(name), embeddings=HashEmbeddings()) as memory:
            builder = StateGraph(MessagesState)
            builder.add_node("write", create_write_node(memory))
            builder.add_edge(START, "write")
            graph = builder.compile()
            for number in range(30):
                wish = HumanMessage(f"My seat wish {number} is the aisle on my trips")
                echo = f"Your seat wish: seat window seat trips number {number} seat"
                said = [wish, AIMessage(echo, name=name)]
                thread = {"user_id": "ana", "thread_id": f"t{number}"}
                graph.invoke({"messages": said}, {"configurable": thread})
            ana = memory.user("ana")
            found = ana.recall("seat trips window seat number", max_tokens=600, k=20)
            shares.append(sum(hit.role == "assistant" for hit in found.evidence))
    assert shares[0] == shares[1]


def test_a_named_person_stays_one_where_the_application_adds_it(tmp_path: Path) -> None:
    with Memory(tmp_path, embeddings=HashEmbeddings()) as memory:
        memory.user("ana").add([AIMessage(CLAIM, name="Ben")], session_id="s")
        (message,) = memory.user("ana").export()
        assert message["name"] == "Ben"
