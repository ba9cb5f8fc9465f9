"""The grounding graph: every way to call it, and a model, memory or request that fails."""

import json
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from jsonschema import Draft202012Validator
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langmem_graph.errors import InvalidInputError, MissingUserError
from langmem_graph.graphs.grounding_graph import create_grounding_graph
from langmem_graph.llm.tool_specs import tool_spec
from langmem_graph.memory import Memory
from langmem_graph.results import GroundedCall
from tests.support.flight_bookings import BookFlight, good
from tests.support.flights import ASKED, SAID, filling
from tests.support.goals import BAD
from tests.support.models import AnswersBySchema

ANA = {"configurable": {"user_id": "ana"}}
SPEC: dict[str, Any] = {
    "type": "function",
    "function": {"name": "BookFlight", "parameters": tool_spec(BookFlight).schema},
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("step", ["ToolFill", "ToolChoice"])
def test_bad_answers_invent_nothing(open_memory: Any, step: str, bad: Any) -> None:
    model = good(**{step: bad})
    ana = open_memory(model).user("ana")
    tools = [BookFlight, BookFlight] if step == "ToolChoice" else BookFlight
    call = ana.ground(tools, ASKED)
    assert GroundedCall.model_validate_json(call.model_dump_json()) == call
    needed = {one.name for one in call.missing}
    errors = list(
        Draft202012Validator(tool_spec(BookFlight).schema).iter_errors(call.arguments)
    )
    assert not errors or "destination" in needed
    said = " ".join([*SAID.values(), ASKED])
    for name, where in call.grounding.items():
        assert where.type == "default" or where.text.casefold() in said.casefold(), name


@pytest.mark.parametrize("bad", [{}, ConnectionError("down")])
def test_an_unusable_answer_is_the_reason_for_what_is_missing(
    open_memory: Any, bad: Any
) -> None:
    """Memory may well say it; nobody has looked."""
    call = open_memory(good(ToolFill=bad)).user("ana").ground(BookFlight, ASKED)
    assert call.missing
    assert {one.reason for one in call.missing} == {
        "the model's answer could not be used"
    }


async def test_every_way_gives_the_same(open_memory: Any) -> None:
    memory = open_memory(good())
    ana = memory.user("ana")
    graph = create_grounding_graph(memory, tools=BookFlight)
    served = create_grounding_graph(memory)
    asked: Any = {"messages": [HumanMessage(ASKED)]}
    found = [
        ana.ground(BookFlight, ASKED).model_dump(mode="json"),
        (await ana.aground(BookFlight, ASKED)).model_dump(mode="json"),
        graph.invoke(asked, ANA)["call"],
        (await graph.ainvoke(asked, ANA))["call"],
        list(graph.stream({"request": ASKED}, ANA, stream_mode="values"))[-1]["call"],
        served.invoke({"request": ASKED, "tools": [SPEC]}, ANA)["call"],
    ]
    assert all(one == found[0] for one in found)


def test_what_a_checkpointer_saves_is_json(open_memory: Any) -> None:
    """A server gives a graph its own checkpointer; what it saves needs no class of this package."""
    saver = InMemorySaver()
    graph = create_grounding_graph(open_memory(good()), tools=BookFlight)
    served = graph.copy(update={"checkpointer": saver})
    config: Any = {"configurable": {"user_id": "ana", "thread_id": "t"}}
    for _ in range(2):
        done = served.invoke({"messages": [HumanMessage(ASKED)]}, config)
    state = served.get_state(config).values
    assert state["tool"]["name"] == "BookFlight"
    assert state["call"] == json.loads(json.dumps(done["call"])) == done["call"]
    assert "langmem_graph" not in f"{saver.storage}{saver.blobs}{saver.writes}"


def test_the_last_message_of_a_thread_is_the_request(open_memory: Any) -> None:
    memory = open_memory(good())
    served = create_grounding_graph(memory).copy(
        update={"checkpointer": InMemorySaver()}
    )
    config: Any = {"configurable": {"user_id": "ana", "thread_id": "t"}}
    served.invoke({"messages": [HumanMessage("Hello!")], "tools": [SPEC]}, config)
    done = served.invoke({"messages": [AIMessage("Hi!"), HumanMessage(ASKED)]}, config)
    alone = memory.user("ana").ground(BookFlight, ASKED).model_dump(mode="json")
    assert done["call"] == alone
    assert served.get_state(config).values["query"] == ASKED


async def test_nothing_blocks_the_loop(open_memory: Any) -> None:
    memory = open_memory(good())
    await memory.user("ana").aground(BookFlight, ASKED)
    graph = create_grounding_graph(memory, tools=BookFlight)
    with blockbuster_ctx():
        done = await graph.ainvoke({"request": ASKED}, ANA)
        call = await memory.user("ana").aground(BookFlight, ASKED)
    assert done["call"] == call.model_dump(mode="json")


def test_two_users_do_not_mix(open_memory: Any) -> None:
    memory = open_memory(AnswersBySchema())
    memory.user("bob").add(
        [{"role": "user", "content": "I fly to Rome."}], session_id="b"
    )
    model = memory._pipelines.model
    create_grounding_graph(memory, tools=BookFlight).invoke(
        {"request": ASKED}, {"configurable": {"user_id": "bob"}}
    )
    prompts = " ".join(question for _, question in model.asked)
    assert "Rome" in prompts
    assert "aisle" not in prompts
    with pytest.raises(MissingUserError):
        create_grounding_graph(memory, tools=BookFlight).invoke({"request": ASKED}, {})


def test_memory_that_fails_leaves_the_request(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = good(ToolFill=filling(("destination", "Rome", "f0", "to Rome")))
    memory = open_memory(model)

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("disk")

    monkeypatch.setattr("langmem_graph.retrieval.example_search.find_facts", fail)
    call = memory.user("ana").ground(BookFlight, "A flight to Rome, please")
    assert call.arguments["destination"] == "Rome"
    assert call.grounding["destination"].message_ids == []
    assert "OSError: disk" in call.warnings[0]


def test_bad_requests_are_refused(open_memory: Any, tmp_path: Path) -> None:
    memory = open_memory(AnswersBySchema())
    ana = memory.user("ana")
    for tool, request, options in (
        (BookFlight, " ", {}),
        (BookFlight, None, {}),
        (BookFlight, "x", {"policy": "guess"}),
        (BookFlight, "x", {"at": "soonish"}),
        (BookFlight, "x", {"trust": "user"}),
        (BookFlight, "x", {"trust": ["anybody"]}),
        (BookFlight, "x", {"model_may_choose": "seat"}),
        ([], "x", {}),
        (7, "x", {}),
    ):
        with pytest.raises(InvalidInputError):
            ana.ground(tool, request, **options)
    with pytest.raises(InvalidInputError):
        create_grounding_graph(memory, tools=7)
    with pytest.raises(InvalidInputError, match="policy"):
        create_grounding_graph(memory, tools=BookFlight, policy="guess")  # type: ignore[arg-type]
    with Memory(tmp_path / "plain", embeddings="hash") as plain:
        with pytest.raises(InvalidInputError, match="needs a model"):
            plain.user("ana").ground(BookFlight, "x")
        with pytest.raises(InvalidInputError, match="needs a memory with a model"):
            create_grounding_graph(plain)


def test_the_nodes_have_the_names_of_the_steps(open_memory: Any) -> None:
    graph = create_grounding_graph(open_memory(AnswersBySchema()))
    steps = ["select_tool", "retrieve_slots", "fill", "verify", "look_again", "decide"]
    nodes = graph.get_graph().nodes
    assert [name for name in nodes if not name.startswith("__")] == steps


def test_a_model_that_only_talks(open_memory: Any) -> None:
    call = (
        open_memory(AnswersBySchema(ToolFill=AIMessage("sure")))
        .user("ana")
        .ground(BookFlight, ASKED)
    )
    assert [one.name for one in call.missing] == ["destination"]
    assert [one.reason for one in call.missing] == [
        "the model's answer could not be used"
    ]
    assert call.warnings


class _Unsaid:
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


def test_a_schema_that_cannot_be_written_is_an_error_of_ours(open_memory: Any) -> None:
    part = {"type": "string", "default": _Unsaid()}
    tool = {"title": "act", "type": "object", "properties": {"x": part}}
    with pytest.raises(InvalidInputError, match="as JSON: RuntimeError: no words"):
        open_memory(good()).user("ana").ground(tool, ASKED)
