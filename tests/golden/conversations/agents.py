"""Agents: middleware, tools, nodes, the write graph, the retriever."""

from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool

from langmem_graph import MemoryMiddleware
from langmem_graph.graphs import (
    MemoryState,
    create_recall_node,
    create_write_graph,
    create_write_node,
    with_memory,
)
from langmem_graph.tools import create_memory_tools
from tests.golden.conversations.grounding import TOLD, taken, tell
from tests.golden.support import (
    ScriptedChatModel,
    Talk,
    conversation,
    extraction,
    memory,
    said,
)

OLA: Any = {"configurable": {"user_id": "ola", "thread_id": "t1"}}


@tool
def book_ferry(harbour: str, cabin: str = "inside", persons: int = 1) -> str:
    """Book a ferry."""
    return f"Booked: {harbour}, {cabin}, {persons}."


def calling(number: int, **arguments: Any) -> AIMessage:
    call = {"name": "book_ferry", "args": arguments, "id": f"call-{number}"}
    return AIMessage("", tool_calls=[call], id=f"a{number}")


@conversation
def agent_that_books(path: Path) -> Talk:
    def fill(prompt: str) -> dict[str, Any]:
        harbour = taken(prompt, "harbour", "Klaipėda", "g1")
        arguments = {"harbour": "Klaipėda", "cabin": "outside"}
        return {
            "arguments": arguments,
            "sources": [harbour, taken(prompt, "cabin", "outside", "g2")],
        }

    talk = Talk(
        path,
        "An agent with memory: what it is shown, calls completed and contradicted, what is kept.",
        ToolFill=[fill, fill, "no arguments", "no arguments"],
        Extraction=[extraction(memory("The user sailed.", kind="event"))],
    ).open()
    ola = tell(talk)
    model = ScriptedChatModel(
        script=[
            calling(1, harbour="Klaipėda"),
            AIMessage("Done.", id="a2"),
            calling(3, harbour="Rostock", cabin="inside"),
            AIMessage("Done again.", id="a4"),
            calling(5, harbour="Turku"),
            AIMessage("Done at last.", id="a6"),
        ]
    )
    remembering = MemoryMiddleware(
        talk.memory, ground_tools=[book_ferry], report=True, extraction="manual"
    )
    agent = create_agent(model, tools=[book_ferry], middleware=[remembering])
    for n in (1, 2, 3):
        asked = HumanMessage("Book that ferry as always, outside cabin?", id=f"h{n}")
        talk.run("agent.invoke", lambda a=asked: agent.invoke({"messages": [a]}, OLA))
    talk.run("the agent's model saw", lambda: model.requests)
    ola.flush()
    ola.export()
    return talk


@conversation
def agent_that_reasons(path: Path) -> Talk:
    talk = Talk(
        path,
        "Middleware that reasons before the turn and reads inline after it.",
        GoalPlan={
            "intent": "act",
            "sure": True,
            "facts": ["f1"],
            "risks": [{"claim": "Ferries are late.", "examples": ["ferries"]}],
        },
        Extraction=extraction(memory("The user goes to sea.", attribute="trip")),
    ).open()
    ola = tell(talk)
    model = ScriptedChatModel(script=[AIMessage("All aboard.", id="a1")])
    remembering = MemoryMiddleware(
        talk.memory, mode="auto", extraction="inline", report=True
    )
    agent = create_agent(model, middleware=[remembering])
    asked = HumanMessage("Please plan a trip to sea.", id="h1")
    talk.run("agent.invoke", lambda: agent.invoke({"messages": [asked]}, OLA))
    talk.run("the agent's model saw", lambda: model.requests)
    talk.run("no user", lambda: agent.invoke({"messages": [asked]}))
    ola.export_records()
    return talk


@conversation
def tools_in_an_agents_hand(path: Path) -> Talk:
    talk = Talk(
        path,
        "The memory tools as a model sees them, and what they answer.",
        Extraction=[
            extraction(
                memory("The user eats porridge on ships.", "m1", attribute="meal")
            )
        ],
    ).open()
    ola = tell(talk)
    ola.flush()
    tools = {
        one.name: one for one in create_memory_tools(talk.memory, allow_forget=True)
    }
    talk.run("create_memory_tools", lambda: list(tools.values()))
    record = ola.search_records("porridge", 1)[0].record_id
    for name, given in (
        ("search_records", {"query": "porridge"}),
        ("search_records", {"query": " "}),
        ("search_conversation", {"query": "ships ferries"}),
        ("get_records", {"record_ids": [record, "ghost"]}),
        ("get_conversation", {"message_ids": ["g1", "ghost"]}),
        ("read_file", {"name": "index.md"}),
        ("read_file", {"name": "../../etc"}),
        ("remember", {"text": "The user likes fog."}),
        ("remember", {"text": ""}),
    ):
        call = {"type": "tool_call", "name": name, "args": given, "id": "c1"}
        talk.run(name, lambda n=name, c=call: tools[n].invoke(c, OLA), **given)
    talk.run("no user", lambda: tools["search_records"].invoke({"query": "x"}))
    return talk


@conversation
def nodes_of_a_graph(path: Path) -> Talk:
    talk = Talk(
        path, "The recall node, the write node, and messages with memory in place."
    ).open()
    tell(talk)
    recall, write = create_recall_node(talk.memory, report=True), create_write_node(
        talk.memory, extraction="manual", report=True
    )  # fmt: skip
    turn = [HumanMessage("Which cabin do I want?", id="h1")]
    state: Any = {"messages": turn}

    def one_turn() -> Any:
        nonlocal state
        state = {**state, **recall.invoke(state, OLA)}
        return state

    def shown() -> Any:
        read: MemoryState = state
        return with_memory(read)

    talk.run("recall node", one_turn)
    talk.run("with_memory", shown)
    said_since = [*turn, AIMessage("Outside.", id="a1")]
    talk.run("write node", lambda: write.invoke({**state, "messages": said_since}, OLA))
    talk.run(
        "write node again", lambda: write.invoke({**state, "messages": said_since}, OLA)
    )
    talk.run("with_memory without recall", lambda: with_memory({"messages": turn}))
    talk.user("ola").export()
    return talk


@conversation
def write_graph(path: Path) -> Talk:
    talk = Talk(
        path,
        "The whole write path as one graph.",
        Extraction=[
            extraction(memory("The user sings.", attribute="hobby")),
            "broken",
            "broken",
        ],
    ).open()
    graph = create_write_graph(talk.memory)
    for n, text in enumerate(("I sing.", "I hum."), 1):
        turn = [HumanMessage(text, id=f"h{n}"), AIMessage("Nice.", id=f"a{n}")]
        talk.run(
            "create_write_graph().invoke",
            lambda t=turn: graph.invoke({"messages": t}, OLA),
        )
    talk.user("ola").export_records()
    return talk


@conversation
def retriever_and_sessions(path: Path) -> Talk:
    talk = Talk(
        path, "The memory as a retriever; sessions at a glance; reading messages."
    ).open()
    ola = tell(talk)
    ola.add([said("Another day, another ferry.", "z1", "2025-05-01")], session_id=8)
    retriever = talk.memory.user("ola").as_retriever(k=2) if talk.memory else None
    assert retriever is not None
    talk.run("retriever.invoke", lambda: retriever.invoke("ferry"))
    talk.run("retriever.invoke k=1", lambda: retriever.invoke("ferry", k=1))
    ola.sessions()
    ola.get_conversation([*TOLD][:2])
    ola.search_conversation("ferry", 3, "session")
    return talk
