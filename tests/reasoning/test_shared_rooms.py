"""Reasoning over a user's own memory and a shared room together."""

import asyncio
import importlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import StateGraph
from sqlalchemy import Connection

from langmem_graph.graphs import create_recall_graph
from langmem_graph.memory import Memory
from langmem_graph.results import Fact
from langmem_graph.retrieval.facts import decide
from langmem_graph.settings import ReasoningSettings, Settings
from langmem_graph.storage.tables import get_meta
from langmem_graph.testing import ScriptedChatModel
from tests.conftest import let_go, said
from tests.support import shared_rooms

ASKED = "Book the shipping of pelicans for Friday"


def opened(path: Path, **options: Any) -> Memory:
    def allowed(user: str, room: str, action: str) -> bool:
        return room == "team"

    memory = Memory(path, embeddings="hash", authorize=allowed, **options)
    for user, text in ((memory.shared("team", as_user="bob"), "Pelicans are never shipped"),
                       (memory.user("ana"), "Ana ships pelicans by train")):  # fmt: skip
        user.add([said(text, id="m1")], session_id="s")  # the same ids in both rooms
        user.add_records(
            {"text": f"{text}.", "record_id": "r1", "source_message_ids": ["m1"]}
        )
    return memory


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    memory = opened(tmp_path, model=ScriptedChatModel())
    yield memory
    let_go(memory)


def test_no_graph_is_compiled_again_for_a_view(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    compiling = StateGraph.compile

    def noting(graph: Any, *args: Any, **options: Any) -> Any:
        compiled.append(options["name"])
        return compiling(graph, *args, **options)

    monkeypatch.setattr(StateGraph, "compile", noting)
    ana = memory.user("ana", shared=["team"])
    found = ana.recall(ASKED, mode="reason", where={"role": "user"})
    assert "Pelicans are never shipped" in found.context
    tool = {"title": "ship", "type": "object", "properties": {"bird": {}}}
    ana.ground(tool, ASKED, where={"role": "user"})
    assert compiled == []


@pytest.mark.parametrize("is_async", [False, True])
def test_both_are_shown_to_the_model_and_quoted(memory: Memory, is_async: bool) -> None:
    ana = memory.user("ana", shared=["team", "shop"])
    mode: Any = {"mode": "reason"}
    found = (
        asyncio.run(ana.arecall(ASKED, **mode))
        if is_async
        else ana.recall(ASKED, **mode)
    )
    assert (
        '(shared room team, added by bob) [m1]: "Pelicans are never shipped."'
        in found.context
    )
    assert ' [m1]: "Ana ships pelicans by train."' in found.context
    assert {fact.id for fact in found.facts} == {'record@"team":r1', "record:r1"}
    assert {(hit.room, hit.message_id) for hit in found.evidence} == {
        ("team", "m1"),
        (None, "m1"),
    }
    assert found.report.status == "degraded"
    assert "'shop' was left out" in found.report.warnings[0]
    alone = memory.user("ana").recall(ASKED, **mode)
    assert {fact.room for fact in alone.facts} == {None}


@pytest.mark.parametrize("is_async", [False, True])
def test_a_graph_shows_what_its_user_may_read_now(
    tmp_path: Path, is_async: bool
) -> None:
    """Both of a plan's look-ups and what edges lead to are asked for, at every run anew."""
    memory = shared_rooms.linked(tmp_path)
    members = {"ana"}
    memory._access._authorize = lambda user, room, _: user in members and room == "team"
    graph = create_recall_graph(memory, mode="reason", k=1, shared=["team", "shop"])

    def shown(user: str = "ana") -> tuple[str, list[str]]:
        asked: Any = {"messages": [("user", "I like tea")]}
        config: Any = {"configurable": {"user_id": user}}
        found = asyncio.run(graph.ainvoke(asked, config)) if is_async else graph.invoke(
            asked, config
        )  # fmt: skip
        return str(found), found["memory_recall"]["report"]["warnings"]

    text, warnings = shown()
    assert shared_rooms.FLOOD in text
    assert warnings == ["the shared room 'shop' was left out: authorize said no."]
    for user in ("eve", "ana"):
        members.clear()  # ana has left meanwhile
        text, warnings = shown(user)
        assert shared_rooms.FLOOD not in text
        assert "elicans" not in text
        assert [room in str(warnings) for room in ("'shop'", "'team'")] == [True, True]
    let_go(memory)


def test_what_speaks_against_an_act_may_be_a_teams_decision(tmp_path: Path) -> None:
    risk = {"claim": "It is forbidden", "examples": ["Pelicans are never shipped"]}
    answers: Any = {
        "GoalPlan": {"intent": "act", "sure": False, "risks": [risk]},
        "Consequences": {"against": [{"fact": "f1", "why": "It is forbidden."}]},
    }
    few = Settings(reasoning=ReasoningSettings(plan_facts=1, subgoals=1))
    memory = opened(tmp_path, model=ScriptedChatModel(answers=answers), settings=few)
    # her own fact is nearest: the plan sees no other
    asked = "Ana ships pelicans by train"
    found = memory.user("ana", shared=["team"]).recall(asked, k=1, mode="reason")
    assert found.reasoning is not None
    against = [risk for risk in found.reasoning.risks if risk.basis == "memory"]
    assert [risk.facts for risk in against] == [['record@"team":r1']]
    assert "(shared room team, added by bob)" in found.context.split("Check this")[1]
    let_go(memory)


def test_edges_of_a_teams_decision_are_followed(tmp_path: Path) -> None:
    memory = shared_rooms.linked(tmp_path)
    found = shared_rooms.shown_along_an_edge(memory)
    assert [risk.facts for risk in found.reasoning.risks if risk.basis == "memory"] == [
        ['record@"team":r1']
    ]
    assert "(shared room team, added by bob)" in found.context.split("Check this")[1]
    alone = memory.user("ana").recall("I like tea", k=1, mode="reason")
    assert shared_rooms.FLOOD not in alone.model_dump_json()
    let_go(memory)


def test_a_room_whose_edges_cannot_be_followed_is_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = shared_rooms.linked(tmp_path)

    def fail(*_: Any) -> None:
        raise OSError("disk")

    monkeypatch.setattr("langmem_graph.retrieval.example_search.neighbours", fail)
    found = shared_rooms.shown_along_an_edge(memory)
    assert shared_rooms.FLOOD not in found.context
    assert found.report.warnings == ["the shared room 'team' was left out: disk"]
    let_go(memory)


SUBGOALS: Any = {
    "subgoals": [{"atom": "(p:thing) is shipped", "query": "shipped pelicans"}]
}
LIST: Any = {
    "rows": [{"item": "train", "facts": ["f1"]}],
    "intent": "lookup",
    "sure": False,
}
STEPS: Any = {
    "retrieve": ("retrieval.joined_search.gather", SUBGOALS),
    "further": (
        "retrieval.example_search.near_records",
        {**LIST, "look_for": ["Shipped."]},
    ),
    "conflicts": ("reasoning.lookups.overlaps_at", {}),
    "context": ("reasoning.assemble_context.labelled_records", {}),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_step_that_leaves_a_room_out_names_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, is_async: bool
) -> None:
    (place, planned), failed = STEPS[step], list[bool]()
    module, name = place.rsplit(".", 1)
    real = getattr(importlib.import_module(f"langmem_graph.{module}"), name)

    def plan(_: str) -> Any:
        def work(*given: Any, **options: Any) -> Any:
            (connection,) = [one for one in given if isinstance(one, Connection)]
            if get_meta(connection, "room") == "team":
                failed.append(True)
                raise OSError("disk")
            return real(*given, **options)

        monkeypatch.setattr(f"langmem_graph.{place}", work)  # the first look-up is done
        return planned

    memory = opened(tmp_path, model=ScriptedChatModel(answers={"GoalPlan": plan}))
    ana, asked = memory.user("ana", shared=["team"]), f"{ASKED}, 1 March 2030 at 10:00"
    mode: Any = {"mode": "reason", "at": "2030-02-01"}
    found = (
        asyncio.run(ana.arecall(asked, **mode))
        if is_async
        else ana.recall(asked, **mode)
    )
    assert failed
    assert found.report.status == "degraded"
    assert found.report.warnings == ["the shared room 'team' was left out: disk"]
    let_go(memory)


def test_a_newer_statement_of_a_shared_room_does_not_win_by_being_newer() -> None:
    def fact(room: str | None, year: int) -> Fact:
        at = datetime(year, 1, 1, tzinfo=UTC)
        about: Any = {"subject": "Ana", "attribute": "home", "room": room}
        return Fact(id=f"{room}{year}", text="", at=at, record_id="r", **about)

    assert (
        decide({"Porto": [fact(None, 2024)], "Berlin": [fact(None, 2025)]}) == "Berlin"
    )
    assert decide({"Porto": [fact(None, 2024)], "Berlin": [fact("team", 2025)]}) is None


def test_a_teams_schedule_is_compared_and_listed(memory: Memory) -> None:
    team, ana = (
        memory.shared("team", as_user="bob"),
        memory.user("ana", shared=["team"]),
    )
    when = {
        "facet": "schedule",
        "kind": "event",
        "event_time": {"start": "2030-03-01T10:00"},
    }
    said_there = {"source_message_ids": ["m1"], **when}
    team.add_records({"text": "Pelican parade.", "record_id": "meeting", **said_there})
    ana.add_records({"text": "Dentist.", "record_id": "meeting", **said_there})
    asked = "Am I free on 1 March 2030 at 10:00?"
    modes: tuple[Any, ...] = ("fast", "reason")
    for mode in modes:
        found = ana.recall(asked, mode=mode, at="2030-02-01")
        assert "[m1] (shared room team, added by bob)" in found.context
        assert found.reasoning is not None
        assert len(found.reasoning.overlaps) == 2
        assert {("team", "m1"), (None, "m1")} <= {
            (h.room, h.message_id) for h in found.evidence
        }
        alone = memory.user("ana").recall(asked, mode=mode, at="2030-02-01")
        assert "Pelican parade" not in str(alone)
    listed = ana.schedule("2030-03-01", "2030-03-02")
    assert {(one.record.room, one.record.text) for one in listed} == {
        ("team", "Pelican parade."), (None, "Dentist."),
    }  # fmt: skip
    refused = memory.user("ana", shared=["shop"]).schedule("2030-03-01", "2030-03-02")
    assert [one.record.text for one in refused] == ["Dentist."]
