"""Every way to call the recall graph gives the same, and blocks nothing."""

import json
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

from langmem_graph.errors import MissingUserError
from langmem_graph.graphs.nodes import create_recall_node
from langmem_graph.graphs.recall_graph import create_recall_graph
from langmem_graph.memory import Memory
from langmem_graph.middleware import MemoryMiddleware
from langmem_graph.testing import ScriptedChatModel
from tests.support.goals import ASKED
from tests.support.reasoning import ANA, chat, tell
from tests.support.recalled import PALM, PUPPY, acting, good


def _outcome(recall: dict[str, Any]) -> dict[str, Any]:
    """Without what differs from run to run."""
    plain: dict[str, Any] = json.loads(json.dumps(recall))
    plain["report"].pop("milliseconds")
    plain["trace"].sort(key=str)  # retrievals run side by side
    return plain


SCENARIOS = {"hops": (ASKED, good), "act": (PALM, acting), "chat": ("Thanks!", good)}


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_every_way_gives_the_same(open_memory: Any, scenario: str) -> None:
    query, model = SCENARIOS[scenario]
    memory = open_memory(model())
    user = memory.user("ana")
    graph = create_recall_graph(memory)
    asked: Any = {"messages": [HumanMessage(query, id="q")]}
    outcomes = [
        user.recall(query, mode="auto").model_dump(mode="json"),
        (await user.arecall(query, mode="auto")).model_dump(mode="json"),
        graph.invoke(asked, ANA)["memory_recall"],
        (await graph.ainvoke(asked, ANA))["memory_recall"],
        list(graph.stream(asked, ANA, stream_mode="values"))[-1]["memory_recall"],
        [part async for part in graph.astream(asked, ANA, stream_mode="values")][-1][
            "memory_recall"
        ],
    ]
    first = _outcome(outcomes[0])
    for outcome in outcomes[1:]:
        assert _outcome(outcome) == first
    contexts = [
        _through_node(memory, asked),
        await _athrough_node(memory, asked),
        _through_middleware(memory, asked, "one"),
        await _athrough_middleware(memory, asked, "other"),
        _through_subgraph(memory, asked),
    ]
    expected = first["context"]
    for context in contexts:
        assert context == expected


def _node_graph(recall: Any, seen: list[str]) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_sequence([("recall", recall), ("chat", chat(seen))])
    builder.add_edge(START, "recall")
    return builder.compile()


def _through_node(memory: Memory, asked: Any) -> str:
    seen: list[str] = []
    _node_graph(create_recall_node(memory, mode="auto"), seen).invoke(asked, ANA)
    return seen[0]


async def _athrough_node(memory: Memory, asked: Any) -> str:
    seen: list[str] = []
    await _node_graph(create_recall_node(memory, mode="auto"), seen).ainvoke(asked, ANA)
    return seen[0]


def _through_subgraph(memory: Memory, asked: Any) -> str:
    seen: list[str] = []
    done = _node_graph(create_recall_graph(memory), seen).invoke(asked, ANA)
    assert [m.type for m in done["messages"]] == ["human", "ai"]
    return seen[0]


def _agent(memory: Memory) -> tuple[Any, ScriptedChatModel]:
    model = ScriptedChatModel(script=["ok"])
    middleware = [MemoryMiddleware(memory, mode="auto", extraction="manual")]
    return create_agent(model, middleware=middleware), model


def _recalled(model: ScriptedChatModel) -> str:
    request = model.requests[0]
    return str(request[-2].content) if len(request) > 1 else ""


def _through_middleware(memory: Memory, asked: Any, user: str) -> str:
    tell(memory, user)  # of its own: the middleware also writes
    agent, model = _agent(memory)
    agent.invoke(asked, {"configurable": {"user_id": user}})
    return _recalled(model)


async def _athrough_middleware(memory: Memory, asked: Any, user: str) -> str:
    tell(memory, user)
    agent, model = _agent(memory)
    await agent.ainvoke(asked, {"configurable": {"user_id": user}})
    return _recalled(model)


async def test_nothing_blocks_the_loop(open_memory: Any) -> None:
    memory = open_memory(acting())
    graph = create_recall_graph(memory, answer=True)
    asked: Any = {"messages": [HumanMessage(PALM)]}
    await graph.ainvoke(asked, ANA)  # imports and tables
    with blockbuster_ctx():
        done = await graph.ainvoke(asked, ANA)
        await memory.user("ana").arecall(PALM, mode="auto")
    assert PUPPY in done["memory_context"]


@pytest.mark.parametrize("through", ["graph", "node"])
def test_steps_can_be_watched(open_memory: Any, through: str) -> None:
    memory = open_memory(acting())
    if through == "graph":
        graph: Any = create_recall_graph(memory)
    else:
        graph = _node_graph(create_recall_node(memory, mode="auto"), [])
    asked: Any = {"messages": [HumanMessage(PALM)]}
    stream = graph.stream(asked, ANA, stream_mode="custom", subgraphs=True)
    events = [part["event"] for _, part in stream]
    assert events[:4] == [
        "memory_recalled",
        "memory_goal",
        "memory_risk",
        "memory_risk",
    ]


def test_events_reach_the_caller(open_memory: Any) -> None:
    seen: list[Any] = []
    user = open_memory(good()).user("ana")
    found = user.recall(ASKED, mode="auto", on_event=seen.append)
    assert sorted(map(str, seen)) == sorted(map(str, found.trace))
    kinds = {event["event"] for event in seen}
    assert {
        "memory_goal",
        "memory_subgoal",
        "memory_retrieved",
        "memory_binding",
    } <= kinds


def test_the_drawn_graph_has_a_loop_and_a_conditional_edge(open_memory: Any) -> None:
    graph = create_recall_graph(open_memory(good()), answer=True, show_loop=True)
    drawn = graph.get_graph(xray=True)
    assert {"route", "first_lookup", "counterfactual", "context", "answer"} <= set(
        drawn.nodes
    )
    inside = {name.split(":")[-1] for name in drawn.nodes if name.startswith("goals:")}
    assert {"plan", "retrieve", "unify", "refine"} <= inside
    edges = {
        (e.source.split(":")[-1], e.target.split(":")[-1], e.conditional)
        for e in drawn.edges
    }
    assert {("unify", "refine", True), ("refine", "retrieve", True)} <= edges
    outer = {(e.source, e.target, e.conditional) for e in graph.get_graph().edges}
    assert {("goals", "counterfactual", True), ("goals", "conflicts", True)} <= outer
    assert {
        ("counterfactual", "conflicts", False),
        ("conflicts", "context", False),
    } <= outer


def test_the_graph_sends_its_context_where_it_is_asked_to(open_memory: Any) -> None:
    asked: Any = {"messages": [HumanMessage(PALM)]}
    for shown in (True, False):
        graph = create_recall_graph(open_memory(acting()), show_context=shown)
        *_, (_, end) = parts = list(
            graph.stream(asked, ANA, stream_mode=["custom", "values"])
        )
        sent = [part for kind, part in parts if kind == "custom" and "context" in part]
        event = {
            "event": "memory_recall",
            "status": "ok",
            "context": end["memory_context"],
        }
        assert sent == ([event] if shown else [])
        assert PUPPY in end["memory_context"]


def test_two_users_in_one_graph_do_not_mix(open_memory: Any) -> None:
    memory = open_memory(acting())
    memory.user("bob").add(
        [{"role": "user", "content": "I own a cactus."}], session_id="b"
    )
    graph = create_recall_graph(memory)
    asked: Any = {"messages": [HumanMessage(PALM)]}
    ana = graph.invoke(asked, ANA)
    bob = graph.invoke(asked, {"configurable": {"user_id": "bob"}})
    assert PUPPY in ana["memory_context"]
    assert "cactus" not in ana["memory_context"]
    assert PUPPY not in bob["memory_context"]
    assert "cactus" in bob["memory_context"]


def test_a_client_cannot_name_another_user_in_the_input(open_memory: Any) -> None:
    memory = open_memory(acting())
    graph = create_recall_graph(memory)
    forged: Any = {
        "messages": [HumanMessage(PALM)],
        "user_id": "ana",
        "query": "x",
        "recalled": [],
    }
    done = graph.invoke(forged, {"configurable": {"user_id": "bob"}})
    assert PUPPY not in done["memory_context"]
    assert done["memory_recall"]["facts"] == []
    with pytest.raises(MissingUserError):
        graph.invoke(forged, {})
