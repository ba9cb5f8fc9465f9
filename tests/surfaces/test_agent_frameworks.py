"""Agents of deepagents, langgraph-supervisor and langgraph-swarm: each word once, no hand-offs."""

from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langmem_graph import Memory
from langmem_graph.graphs.nodes import (
    MemoryState,
    create_recall_node,
    create_write_node,
)
from langmem_graph.middleware import MemoryMiddleware
from langmem_graph.testing import ScriptedChatModel
from tests.conftest import let_go
from tests.support.graphs import config
from tests.support.writing import echo

FLIGHT = "Flight KL1 is booked."
TRANSFERS = ("transfer_", "ransferred", "ransferring", "ask_flight_agent")


@tool
def book(seat: str) -> str:
    """Books a seat."""
    return f"booked {seat}"


def calls(name: str, text: str = "", **args: Any) -> AIMessage:
    return AIMessage(
        text, tool_calls=[{"name": name, "args": args, "id": f"call-{name}-{args}"}]
    )


def kept(memory: Memory) -> list[str]:
    return [row["content"] for row in memory.user("ana").export()]


@pytest.mark.long
@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("form", [HumanMessage, lambda text: ("user", text)])
def test_a_deep_agent_stores_each_message_once(
    memory: Memory, form: Any, saved: bool
) -> None:
    """Its state keeps a pair without an id, and the first step is a tool call."""
    create_deep_agent = pytest.importorskip("deepagents").create_deep_agent
    turns = [
        step for n in "123" for step in (calls("book", seat=n), f"Seat {n} it is.")
    ]
    agent = create_deep_agent(
        ScriptedChatModel(script=turns),
        tools=[book],
        middleware=[MemoryMiddleware(memory)],
        checkpointer=InMemorySaver() if saved else None,
    )
    for n in "123":
        agent.invoke({"messages": [form(f"Book seat {n}.")]}, config())
    spoken = [text for text in kept(memory) if not text.startswith("[calls")]
    assert spoken == [
        text
        for n in "123"
        for text in (f"Book seat {n}.", f"booked {n}", f"Seat {n} it is.")
    ]
    assert len(kept(memory)) == 12


def supervisor(memory: Memory, text: str = "") -> Any:
    pytest.importorskip("langgraph_supervisor")
    from langgraph_supervisor import create_supervisor

    worker = create_agent(ScriptedChatModel(script=[FLIGHT]), name="flight agent")
    script = [calls("transfer_to_flight_agent", text), "You fly with KL1."]
    app = create_supervisor([worker], model=ScriptedChatModel(script=script))
    return around(memory, app.compile())


def swarm(memory: Memory, text: str = "") -> Any:
    return around(memory, agents_of_swarm(text))


def swarm_with_middleware(memory: Memory) -> Any:
    return agents_of_swarm("", [MemoryMiddleware(memory, extraction="manual")])


def swarm_with_tools_of_another_name(memory: Memory) -> Any:
    """Only the tool's own metadata says that it hands over; the middleware sees it."""
    return agents_of_swarm(
        "", [MemoryMiddleware(memory, extraction="manual")], "ask_flight_agent"
    )


def agents_of_swarm(
    text: str, middleware: Any = (), tool_name: str | None = None
) -> Any:
    pytest.importorskip("langgraph_swarm")
    from langgraph_swarm import create_handoff_tool, create_swarm

    agents = [
        create_agent(
            ScriptedChatModel(script=[answer]),
            [create_handoff_tool(agent_name=other, name=tool_name)],
            middleware=middleware,
            name=name,
        )
        for name, other, answer in (
            (
                "Host",
                "flight agent",
                calls(tool_name or "transfer_to_flight_agent", text),
            ),
            ("flight agent", "Host", FLIGHT),
        )
    ]
    return create_swarm(agents, default_active_agent="Host").compile()


def around(memory: Memory, agents: Any) -> Any:
    """The agents between memory's nodes."""
    builder = StateGraph(MessagesState)
    builder.add_sequence([("recall", create_recall_node(memory)), ("agents", agents)])
    builder.add_node("write", create_write_node(memory, extraction="manual"))
    builder.add_edge(START, "recall")
    builder.add_edge("agents", "write")
    return builder.compile()


def of_model(tmp_path: Path) -> tuple[Memory, ScriptedChatModel]:
    model = ScriptedChatModel(answers={"Extraction": echo})
    return Memory(tmp_path / "m", embeddings="hash", model=model), model


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
@pytest.mark.parametrize(
    "host", [supervisor, swarm, swarm_with_middleware, swarm_with_tools_of_another_name]
)
def test_a_hand_off_is_stored_but_never_found_quoted_or_extracted(
    tmp_path: Path, host: Any
) -> None:
    memory, model = of_model(tmp_path)
    app = host(memory)
    app.invoke({"messages": [("user", "Which flight did I book?")]}, config())

    ana = memory.user("ana")
    rows = [(row["role"], row.get("origin")) for row in ana.export()]
    handed = [row["content"] for row in ana.export() if row.get("origin") == "plumbing"]
    assert rows[:3] == [("user", None), ("assistant", "plumbing"), ("tool", "plumbing")]
    assert len(handed) == (4 if host is supervisor else 2)
    assert all(any(word in text for word in TRANSFERS) for text in handed)
    for query in (
        "transferred flight_agent",
        "Transferring back to supervisor",
        "flight",
    ):
        hits = ana.search_conversation(query, k=20)
        assert {hit.text for hit in hits}.isdisjoint(handed)
        assert not any(word in ana.recall(query).context for word in TRANSFERS)
    assert FLIGHT in ana.recall("Which flight?").context
    ana.flush()
    asked = [question for name, question in model.asked if name == "Extraction"]
    assert asked
    assert not any(word in question for question in asked for word in TRANSFERS)
    assert FLIGHT in asked[0]
    assert ana.doctor().ok
    let_go(memory)


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
@pytest.mark.parametrize("host", [supervisor, swarm])
def test_words_beside_a_hand_off_are_the_assistants_own(
    memory: Memory, host: Any
) -> None:
    app = host(memory, "I pass you on to flights.")
    app.invoke({"messages": [("user", "Which flight did I book?")]}, config())
    row = memory.user("ana").export()[1]
    assert (row["content"], row.get("origin")) == ("I pass you on to flights.", None)
    assert memory.user("ana").search_conversation("pass you on to flights")


@pytest.mark.long
def test_later_changes_leave_hand_offs_out(tmp_path: Path) -> None:
    """Forgetting indexes a session anew, another embedder all texts; background holds none."""
    memory, model = of_model(tmp_path)
    ana = memory.user("ana")
    over = [calls("transfer_to_bob"), transferred("bob")]
    ana.add([("user", "One."), *over, ("user", "Two.")], session_id="s")
    one, call, _, two = (row["id"] for row in ana.export())
    ana.add_records([{"text": "Ana counts.", "source_message_ids": [one, call, two]}])
    ana.forget(message=one)  # the others of the record are read again
    ana.flush()
    ana.rebuild(reembed=True)
    ana.add([("user", "Three."), ("assistant", "Yes.")], session_id="s")
    ana.flush()
    found = {hit.text for hit in ana.search_conversation("transferred to bob", k=9)}
    assert found == {"Two.", "Three.", "Yes."}
    assert len(ana.export()) == 5
    assert not any("transfer" in question for _, question in model.asked)
    let_go(memory)


def transferred(agent: str, name: str = "") -> ToolMessage:
    """What langgraph-swarm's tool answers."""
    tool_name = name or f"transfer_to_{agent}"
    text = f"Successfully transferred to {agent}"
    return ToolMessage(text, name=tool_name, tool_call_id=f"call-{tool_name}-{{}}")


def test_a_tool_that_is_only_called_like_a_hand_off_is_an_ordinary_one(
    memory: Memory,
) -> None:
    """A hand-off has no arguments, and its answer and its name are made of the agent's name."""
    ana = memory.user("ana")
    paid = calls("transfer_to_savings", amount=5)
    done = ToolMessage(
        "Successfully transferred to savings",
        name="transfer_to_savings",
        tool_call_id=paid.tool_calls[0]["id"],
    )
    told = [
        ToolMessage("The agent is busy.", name="transfer_to_bob", tool_call_id="b"),
        ToolMessage("bob", name="transfer_to_bob", tool_call_id="c"),
        transferred("bob", name="send_mail"),
        ("user", "Successfully transferred to bob"),
    ]
    ana.add([paid, done, *told], session_id="s")
    assert [row.get("origin") for row in ana.export()] == [None] * 6


def test_the_words_of_a_hand_off_find_no_message_after_it(memory: Memory) -> None:
    """A message is also found by the words of the two before it."""
    ana = memory.user("ana")
    ana.add([calls("transfer_to_bob"), transferred("bob")], session_id="s")
    ana.add([("user", "Two.")], session_id="s")
    (hit,) = ana.search_conversation("transferred to bob", explain=True)
    assert hit.text == "Two."
    assert hit.signals is not None
    assert not hit.signals["words"]


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
def test_a_client_that_sends_the_words_again_may_leave_hand_offs_out(
    memory: Memory,
) -> None:
    conversation = [("user", "Which flight?")]
    for _ in range(2):
        supervisor(memory).invoke({"messages": conversation}, config())
        conversation += [
            ("ai", FLIGHT),
            ("ai", "You fly with KL1."),
            ("user", "Thanks."),
        ]
    rows = memory.user("ana").export()
    said = [row["content"] for row in rows if row.get("origin") != "plumbing"]
    answers = [FLIGHT, "You fly with KL1."]
    assert said == ["Which flight?", *answers, "Thanks.", *answers]


def test_calls_beside_a_hand_off_keep_the_message(memory: Memory) -> None:
    both = [*calls("transfer_to_bob").tool_calls, *calls("book", seat="1").tool_calls]
    memory.user("ana").add(
        [AIMessage("", tool_calls=both), transferred("bob"), ("user", "And?")],
        session_id="s",
    )
    assert [row.get("origin") for row in memory.user("ana").export()] == [
        None,
        "plumbing",
        None,
    ]


def test_an_application_may_mark_its_own_plumbing(memory: Memory) -> None:
    ana = memory.user("ana")
    ana.add([("assistant", "Routing to team 7.")], session_id="s", origin="plumbing")
    assert [row["origin"] for row in ana.export()] == ["plumbing"]
    assert not ana.search_conversation("routing team")
    again = memory.user("bea")
    again.add(ana.export(), session_id="s")
    assert again.export()[0]["origin"] == "plumbing"


def test_a_state_of_ones_own_with_a_worker_that_alone_has_memory(
    memory: Memory,
) -> None:
    """What the others answer is stored when the worker sees it next, as docs/middleware.md says."""
    worker = create_agent(
        ScriptedChatModel(script=[FLIGHT]),
        middleware=[MemoryMiddleware(memory)],
        name="worker",
    )
    builder = StateGraph(MemoryState)
    builder.add_node("worker", worker)
    builder.add_node("boss", lambda _: {"messages": [AIMessage("You fly with KL1.")]})
    builder.add_edge(START, "worker")
    builder.add_edge("worker", "boss")
    app = builder.compile(checkpointer=InMemorySaver())
    app.invoke({"messages": [("user", "Which flight?")]}, config())
    assert kept(memory) == ["Which flight?", FLIGHT]
    app.invoke({"messages": [("user", "Thanks.")]}, config())
    assert kept(memory) == [
        "Which flight?",
        FLIGHT,
        "You fly with KL1.",
        "Thanks.",
        FLIGHT,
    ]
