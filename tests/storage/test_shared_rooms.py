"""Shared rooms: who may use them, whatever the application answers, and how they are kept apart."""

import asyncio
import inspect
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.graph import START, StateGraph

from langmem_graph import rooms
from langmem_graph.errors import InvalidInputError, MissingUserError, RoomRefusedError
from langmem_graph.graphs.nodes import MemoryState, create_recall_node
from langmem_graph.ids_and_times import folder_name
from langmem_graph.memory import Memory, UserMemory
from langmem_graph.middleware import MemoryMiddleware
from langmem_graph.operation import action_of
from langmem_graph.rooms import RoomAccess, shared_key
from langmem_graph.settings import Settings
from langmem_graph.shared_memory import SharedMemory
from langmem_graph.testing import ScriptedChatModel
from tests.conftest import TroubledEmbeddings, let_go, said
from tests.support import shared_rooms
from tests.support.shared_rooms import Application

ANA: Any = {"configurable": {"user_id": "ana", "thread_id": "t"}}


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Memory]]:
    with shared_rooms.opening(tmp_path / "memory") as opened:
        yield opened


@pytest.fixture
def memory(opened: Callable[..., Memory]) -> Memory:
    return shared_rooms.told(opened())


@pytest.mark.parametrize("count", [12, pytest.param(500, marks=pytest.mark.stress)])
def test_no_foreign_row_whatever_the_application_answers(
    opened: Callable[..., Memory], count: int
) -> None:
    application = Application(random.Random(7))
    model = shared_rooms.reasoner()
    memory = opened(application, settings=shared_rooms.SETTINGS, model=model)
    shared_rooms.fill(memory, application)
    try:
        assert shared_rooms.check(memory, application, count, hanging=0.03) == 0
    finally:
        application.released.set()


@pytest.mark.parametrize("removed", ["refusals", "_reason"])
def test_without_the_check_the_trial_finds_foreign_rows(
    opened: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch, removed: str
) -> None:
    application = Application(random.Random(7))
    memory = opened(application, model=shared_rooms.reasoner())
    shared_rooms.fill(memory, application)
    nothing: Any = {"refusals": {}, "_reason": ""}[removed]
    monkeypatch.setattr(RoomAccess, removed, lambda *_: nothing)
    assert shared_rooms.check(memory, application, 3, hanging=0.0) > 0


def test_a_hanging_application_is_waited_for_once(
    opened: Callable[..., Memory],
) -> None:
    application = Application(random.Random(1))
    memory = opened(application, settings=Settings(authorize_seconds=0.2))
    application.draw(hanging=1.0)
    try:
        begun = time.monotonic()
        found = memory.user("ana", shared=shared_rooms.ROOMS).recall("meeting")
        assert time.monotonic() - begun < 20
        assert len(found.report.warnings) == 3
        assert "gave no answer in 0.2 seconds" in found.report.warnings[0]
    finally:
        application.released.set()


@pytest.mark.parametrize(
    "limit, most, asked", [("MOST_ASKED", 1, 3), ("MOST_ASKED_IN_ALL", 2, 2)]
)
def test_questions_that_are_never_answered_do_not_pile_up(
    opened: Callable[..., Memory],
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    most: int,
    asked: int,
) -> None:
    monkeypatch.setattr(rooms, limit, most)
    application = Application(random.Random(1))
    memory = opened(application, settings=Settings(authorize_seconds=0.1))
    keys = [("ana", room, "read") for room in shared_rooms.ROOMS]
    application.moods = dict.fromkeys(keys, "hangs")
    try:
        for _ in range(3):
            found = memory.user("ana", shared=shared_rooms.ROOMS).recall("meeting")
            assert len(found.report.warnings) == 3
        assert len(application.asked) == asked  # the others found no place
    finally:
        application.released.set()


def test_a_room_without_an_answer_keeps_no_other_one_waiting(
    opened: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its slots come back when the questions end."""
    monkeypatch.setattr(rooms, "MOST_ASKED", 2)
    application = Application(random.Random(1))
    memory = opened(application, settings=Settings(authorize_seconds=0.2))
    shared_rooms.fill(memory, application)
    shop = ("bob", "shop", "read")
    application.moods = {shop: "hangs", ("bob", "team", "read"): "yes"}
    try:
        for _ in range(4):
            memory.user("bob", shared=["shop"]).recall("pelicans")
        found = memory.user("bob", shared=["team"]).recall("pelicans")
        assert found.report.warnings == []
    finally:
        application.released.set()
    application.moods[shop] = "yes"
    while memory.user("bob", shared=["shop"]).recall("pelicans").report.warnings:
        time.sleep(0.01)


def test_a_refused_room_is_left_out_and_named(memory: Memory) -> None:
    bob = memory.user("bob", shared=["team", "shop"])
    recall = bob.recall("pelicans")
    assert [hit.room for hit in recall.evidence] == ["team"]
    assert recall.report.status == "degraded"
    assert recall.report.warnings == [
        "the shared room 'shop' was left out: authorize said no."
    ]
    with pytest.raises(
        RoomRefusedError, match="'bob' may not read the shared room 'shop'"
    ):
        memory.shared("shop", as_user="bob").recall("pelicans")
    with pytest.raises(RoomRefusedError, match="may not write"):
        memory.shared("shop", as_user="bob").add([said("x")], session_id="s")


def test_without_authorize_nobody_uses_a_room(opened: Callable[..., Memory]) -> None:
    memory = opened(None)
    with pytest.raises(RoomRefusedError, match="no authorize function"):
        memory.shared("team", as_user="ana")
    recall = memory.user("ana", shared=["team"]).recall("anything")
    assert (recall.context, recall.report.status) == ("", "degraded")
    with pytest.raises(InvalidInputError, match="authorize must be a function"):
        Memory(memory.path or "", authorize="yes")  # type: ignore[arg-type]


def test_every_method_asks(memory: Memory) -> None:
    shared = memory.shared("shop", as_user="bob")
    names = [name for name in dir(UserMemory) if not name.startswith("_")]
    unasked = []
    for name in names:
        method = getattr(shared, name)
        asked = action_of(getattr(UserMemory, name))
        expected = RoomRefusedError if asked else InvalidInputError
        try:
            done = method()
            asyncio.run(done) if inspect.iscoroutine(done) else None
        except expected:
            continue
        unasked.append(name)
    assert unasked == ["as_retriever"]  # which asks when it is invoked
    with pytest.raises(RoomRefusedError):
        shared.as_retriever().invoke("pelicans")
    # what a method that does not ask would work with
    assert not hasattr(shared, "_services")


def test_no_user_has_the_key_of_a_room(memory: Memory, tmp_path: Path) -> None:
    keys = ["team", "\udcffteam", "shared:team", "room/team"]
    assert shared_key("team") not in [key for key in keys if key != "\udcffteam"]
    hashes = {folder_name(key) for key in (*keys, shared_key("shop"))}
    assert len(hashes) == 5
    with pytest.raises(MissingUserError, match="half of a character"):
        memory.user(shared_key("team"))
    with pytest.raises(InvalidInputError, match="half of a character"):
        memory.shared(shared_key("team"), as_user="ana")
    assert memory.user("team").search_conversation("pelicans") == []
    listed = [(one.user_id, one.is_shared, one.messages) for one in memory.users()]
    assert listed == [("ana", False, 1), ("team", True, 1)]
    places = {folder.name for folder in (tmp_path / "memory" / "shared").iterdir()}
    assert places == {folder_name(shared_key("team"))}


def test_a_failing_room_is_left_out(
    opened: Callable[..., Memory], troubled: TroubledEmbeddings, tmp_path: Path
) -> None:
    memory = opened()
    memory.shared("team", as_user="ana").add([said("pelicans here")], session_id="s")
    memory.shared("shop", as_user="ana").add([said("pelicans there")], session_id="s")
    ledger = (
        tmp_path / "memory" / "shared" / folder_name(shared_key("team")) / "ledger.db"
    )
    memory.close()
    ledger.write_bytes(b"no ledger" * 500)
    again = opened()
    ana = again.user("ana", shared=["team", "shop"])
    recall = ana.recall("pelicans")
    assert [hit.room for hit in recall.evidence] == ["shop"]
    assert "'team' was left out" in recall.report.warnings[0]
    assert [hit.room for hit in ana.search_conversation("pelicans")] == ["shop"]
    again.close()
    # of another embedder than the vectors of the room
    memory = opened(embeddings=troubled)
    recall = memory.user("ana", shared=["shop"]).recall("pelicans")
    assert recall.evidence == []
    assert "made by" in recall.report.warnings[0]


def test_one_is_asked_on_the_loop_of_the_caller(opened: Callable[..., Memory]) -> None:
    loops: list[Any] = []

    async def members(user: str, room: str, action: str) -> bool:
        loops.append(asyncio.get_running_loop())
        return user == "ana"

    async def run() -> Any:
        team = memory.shared("team", as_user="ana")
        await team.aadd([said("the code is 4711")], session_id="s")
        found = await memory.user("ana", shared=["team"]).arecall("which code?")
        with pytest.raises(RoomRefusedError):
            await memory.shared("team", as_user="bob").arecall("which code?")
        return found, asyncio.get_running_loop()

    memory = opened(members)
    recall, loop = asyncio.run(run())
    assert "4711" in recall.context
    assert loops == [loop] * 3
    assert "4711" in memory.user("ana", shared=["team"]).recall("which code?").context


@pytest.mark.parametrize("answer", ["yes", "later yes", "raises", "no"])
def test_a_turn_goes_on(opened: Callable[..., Memory], answer: str) -> None:
    application = Application(random.Random(1))
    memory = opened(application)
    application.moods = dict.fromkeys(
        [("bob", "team", "write"), ("ana", "team", "read")], "yes"
    )
    memory.shared("team", as_user="bob").add(
        [said("pelicans fly at noon")], session_id="s"
    )
    application.moods["ana", "team", "read"] = answer
    options: dict[str, Any] = {"shared": ["team"], "report": True}
    agent = create_agent(
        ScriptedChatModel(script=["Noon."]),
        middleware=[MemoryMiddleware(memory, **options)],
    )
    said_now = agent.invoke({"messages": [("user", "When do pelicans fly?")]}, ANA)
    assert said_now["messages"][-1].text == "Noon."
    builder = StateGraph(MemoryState)
    builder.add_node("recall", create_recall_node(memory, **options))
    builder.add_edge(START, "recall")
    asked: Any = {"messages": [("user", "When do pelicans fly?")]}
    sync = builder.compile().invoke(asked, ANA)
    later = asyncio.run(builder.compile().ainvoke(asked, ANA))
    reports = [said_now["memory_report"], sync["memory_report"], later["memory_report"]]
    is_allowed = answer.endswith("yes")
    expected = "ok" if is_allowed else "degraded"
    assert [one["recall"]["status"] for one in reports] == [expected] * 3
    for state in (sync, later):
        assert ("at noon" in state["memory_context"]) is is_allowed


def test_the_class_is_what_memory_gives(memory: Memory) -> None:
    shared = memory.shared("team", as_user="ana")
    assert isinstance(shared, SharedMemory)
    assert (shared.id, shared.as_user) == ("team", "ana")


def test_a_shared_room_has_limits_of_its_own_and_those_of_the_memory(
    opened: Callable[..., Memory],
) -> None:
    memory = opened(lambda user, room, action: user == "ana")
    team, club = (memory.shared(room, as_user="ana") for room in ("team", "club"))
    for room in (team, club):
        room.add(
            [said("We moved the heron.", id="old", at="2020-01-01")], session_id="s"
        )
        room.add([said("We ship today.", id="new")], session_id="s")
    team.keep_days(messages=30)
    (report,) = memory.expire()
    assert (report.user_id, report.is_shared, report.messages) == ("team", True, 1)
    assert [one["content"] for one in team.export()] == ["We ship today."]
    assert len(club.export()) == 2
    memory.keep_days(messages=60)
    (report,) = memory.expire()
    assert (report.user_id, report.messages) == ("club", 1)
    with pytest.raises(RoomRefusedError):
        memory.shared("club", as_user="eve").expire()


def test_a_room_that_holds_nothing_is_named(tmp_path: Path, caplog: Any) -> None:
    memory = shared_rooms.misspelt(tmp_path)
    shared_rooms.check_misspelt(memory, caplog)
    let_go(memory)
