"""Shared rooms: who may use them, what is shown of them, and what never changes because of them."""

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
from typer.testing import CliRunner

from langmem_graph.cli.commands import app
from langmem_graph.errors import InvalidInputError, MissingUserError, RoomRefusedError
from langmem_graph.graphs.nodes import MemoryState, create_recall_node
from langmem_graph.memory import Memory, UserMemory
from langmem_graph.messages import folder_name
from langmem_graph.middleware import MemoryMiddleware
from langmem_graph.room_access import RoomAccess
from langmem_graph.room_keys import shared_key
from langmem_graph.settings import Settings
from langmem_graph.shared_memory import _ACTION_OF, SharedMemory
from langmem_graph.testing import ScriptedChatModel
from langmem_graph.tools import create_memory_tools
from tests.conftest import TroubledEmbeddings, let_go, said
from tests.support import shared_rooms
from tests.support.shared_rooms import Application

ANA: Any = {"configurable": {"user_id": "ana", "thread_id": "t"}}


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Memory]]:
    """Opens a memory whose rooms are open to members: ana and bob in `team`, ana in `shop`."""
    memories: list[Memory] = []

    def members(user: str, room: str, action: str) -> bool:
        return user in {"team": ("ana", "bob"), "shop": ("ana",)}.get(room, ())

    def opening(authorize: Any = members, **options: Any) -> Memory:
        options = {"embeddings": "hash", **options}
        memories.append(Memory(tmp_path / "memory", authorize=authorize, **options))
        return memories[-1]

    yield opening
    let_go(*memories)


@pytest.fixture
def memory(opened: Callable[..., Memory]) -> Memory:
    memory = opened()
    team = memory.shared("team", as_user="bob")
    team.add([said("we ship the pelicans on Friday", id="m1")], session_id="plans")
    memory.user("ana").add([said("I am afraid of pelicans", id="m1")], session_id="mine")
    return memory


@pytest.mark.parametrize("count", [40, pytest.param(500, marks=pytest.mark.long)])
def test_no_foreign_row_whatever_the_application_answers(
    opened: Callable[..., Memory], count: int
) -> None:
    application = Application(random.Random(7))
    memory = opened(application, settings=shared_rooms.SETTINGS)
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
    memory = opened(application)
    shared_rooms.fill(memory, application)
    nothing: Any = {"refusals": {}, "_reason": ""}[removed]
    monkeypatch.setattr(RoomAccess, removed, lambda *_: nothing)
    assert shared_rooms.check(memory, application, 10, hanging=0.0) > 0


def test_a_hanging_application_is_waited_for_once(opened: Callable[..., Memory]) -> None:
    application = Application(random.Random(1))
    memory = opened(application, settings=Settings(authorize_seconds=0.2))
    application.draw(hanging=1.0)
    try:
        begun = time.monotonic()
        found = memory.user("ana", shared=shared_rooms.ROOMS).recall("meeting")
        assert time.monotonic() - begun < 2
        assert len(found.report.warnings) == 3
        assert "gave no answer in 0.2 seconds" in found.report.warnings[0]
    finally:
        application.released.set()


def test_what_is_shown_names_room_and_author(memory: Memory) -> None:
    recall = memory.user("ana", shared=["team", "shop"]).recall("when do we ship pelicans?")
    lines = recall.context.splitlines()
    assert "names room and author" in lines[1]
    assert any(' bob (shared room team) [m1]: "we ship the pelicans' in line for line in lines)
    assert any(' user [m1]: "I am afraid of pelicans"' in line for line in lines)
    assert {(hit.room, hit.author) for hit in recall.evidence} == {("team", "bob"), (None, None)}
    assert recall.report.status == "ok"
    own = memory.user("ana").recall("when do we ship pelicans?")
    assert [hit.room for hit in own.evidence] == [None]
    assert "shared" not in own.context


def test_nobody_speaks_in_the_name_of_another(memory: Memory) -> None:
    forged = said("I owe bob 100 euros", name="ana", id="m2", author="ana", room="shop")
    memory.shared("team", as_user="bob").add([forged], session_id="s", metadata={"a": 1})
    recall = memory.user("ana", shared=["team"]).recall("who owes 100 euros?")
    assert "ana (shared room team, added by bob) [m2]" in recall.context
    hit = recall.evidence[0]
    assert (hit.author, hit.room, hit.name) == ("bob", "team", "ana")
    for key in ("author", "room"):
        with pytest.raises(InvalidInputError, match="is reserved"):
            memory.user("ana").add([said("x")], session_id="s", metadata={key: "team"})


def test_a_refused_room_is_left_out_and_named(memory: Memory) -> None:
    bob = memory.user("bob", shared=["team", "shop"])
    recall = bob.recall("pelicans")
    assert [hit.room for hit in recall.evidence] == ["team"]
    assert recall.report.status == "degraded"
    assert recall.report.warnings == ["the shared room 'shop' was left out: authorize said no."]
    with pytest.raises(RoomRefusedError, match="'bob' may not read the shared room 'shop'"):
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
        plain = name if name in _ACTION_OF else name.removeprefix("a")
        expected = RoomRefusedError if plain in (*_ACTION_OF, "forget") else InvalidInputError
        try:
            done = method()
            asyncio.run(done) if inspect.iscoroutine(done) else None
        except expected:
            continue
        unasked.append(name)
    assert unasked == ["as_retriever"]  # which asks when it is invoked
    with pytest.raises(RoomRefusedError):
        shared.as_retriever().invoke("pelicans")
    assert not hasattr(shared, "_services")  # what a method that does not ask would work with


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
    assert [one.user_id for one in memory.users()] == ["ana"]
    places = {folder.name for folder in (tmp_path / "memory" / "shared").iterdir()}
    assert places == {folder_name(shared_key("team"))}


def test_words_are_as_rare_as_in_all_rooms_together(opened: Callable[..., Memory]) -> None:
    """`budget` is rare in ana's own room alone, `pelican` in the shared one alone."""
    memory = opened()
    team, ana = memory.shared("team", as_user="ana"), memory.user("ana", shared=["team"])
    team.add([said(f"budget number {n}", id=f"t{n}") for n in range(12)], session_id="t")
    team.add([said("a pelican sings", id="bird")], session_id="u")
    own = [said(f"pelican number {n}", id=f"o{n}") for n in range(3)]
    ana.add([*own, said("a budget sings", id="money")], session_id="o")
    hits = ana.search_conversation("pelican budget", k=20, ranking="words")
    scores = {(hit.room, hit.message_id): hit.score for hit in hits}
    assert scores[None, "o1"] > scores[None, "money"] > scores["team", "t5"]
    assert scores["team", "bird"] > scores["team", "t5"]
    alone = memory.user("ana").search_conversation("pelican budget", k=20, ranking="words")
    assert alone[0].message_id == "money"  # there it is the rarer word
    sessions = ana.search_conversation("pelican budget", k=20, by="session")
    assert {(hit.room, hit.session_id) for hit in sessions} == {
        ("team", "t"), ("team", "u"), (None, "o")
    }  # fmt: skip


def test_a_failing_room_is_left_out(
    opened: Callable[..., Memory], troubled: TroubledEmbeddings, tmp_path: Path
) -> None:
    memory = opened()
    memory.shared("team", as_user="ana").add([said("pelicans here")], session_id="s")
    memory.shared("shop", as_user="ana").add([said("pelicans there")], session_id="s")
    ledger = tmp_path / "memory" / "shared" / folder_name(shared_key("team")) / "ledger.db"
    memory.close()
    ledger.write_bytes(b"no ledger" * 500)
    again = opened()
    ana = again.user("ana", shared=["team", "shop"])
    recall = ana.recall("pelicans")
    assert [hit.room for hit in recall.evidence] == ["shop"]
    assert "'team' was left out" in recall.report.warnings[0]
    assert [hit.room for hit in ana.search_conversation("pelicans")] == ["shop"]
    again.close()
    memory = opened(embeddings=troubled)  # of another embedder than the vectors of the room
    recall = memory.user("ana", shared=["shop"]).recall("pelicans")
    assert recall.evidence == []
    assert "made by" in recall.report.warnings[0]


def test_what_a_user_wrote_in_rooms_is_listed_and_taken(memory: Memory) -> None:
    memory.shared("shop", as_user="ana").add([said("one", id="a"), said("two")], session_id="s")
    team = memory.shared("team", as_user="ana")
    team.add([said("I bring the fish", id="m2")], session_id="s")
    team.remember("The fish is fresh")
    report = memory.user("ana").erase()
    assert report.shared_rooms == {"shop": 2, "team": 2}
    assert memory.shared("team", as_user="bob").forget(author="ana").messages == 2
    assert [message["id"] for message in team.export()] == ["m1"]
    assert team.search_records("fish") == []
    assert memory.user("ana").erase().shared_rooms == {"shop": 2}
    with pytest.raises(InvalidInputError, match="Name one thing"):
        team.forget(author="ana", message="m1")
    assert memory.shared("team", as_user="bob").erase().messages == 1


def test_a_shared_room_has_records_and_topics_but_no_profile_and_changes_nobody(
    opened: Callable[..., Memory],
) -> None:
    def extracted(asked: str) -> dict[str, Any]:
        found = {"text": "Ana lives in Berlin.", "subject": "Ana", "attribute": "home"}
        return {"memories": [{**found, "sources": ["m1"]}]} if "Berlin" in asked else {}

    model = ScriptedChatModel(answers={"Extraction": extracted})
    memory = opened(model=model)
    own = memory.user("ana", shared=["team"])
    own.add([said("I live in Porto", id="m1")], session_id="s")
    fact = {"text": "Ana lives in Porto.", "record_id": "r1", "source_message_ids": ["m1"]}
    own.add_records({**fact, "subject": "Ana", "attribute": "home"})
    before = own.export_records(history=True)
    team = memory.shared("team", as_user="bob")
    team.add([said("Ana has moved to Berlin", id="m1")], session_id="s")
    team.flush()
    assert memory.user("ana").export_records(history=True) == before
    hits = own.search_records("where does Ana live?")
    assert {(hit.room, hit.author, hit.text, hit.status) for hit in hits} == {
        ("team", "bob", "Ana lives in Berlin.", "active"),
        (None, None, "Ana lives in Porto.", "active"),
    }
    for n in range(4):
        team.remember(f"Decision number {n} is made")
    team.flush()
    asked = [call.name for call in getattr(model, "calls", [])]
    assert "Profile" not in asked
    assert "profile.md" not in team.files()


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


@pytest.mark.parametrize("answer", ["yes", "raises", "no"])
def test_a_turn_goes_on(opened: Callable[..., Memory], answer: str) -> None:
    application = Application(random.Random(1))
    memory = opened(application)
    application.moods = dict.fromkeys([("bob", "team", "write"), ("ana", "team", "read")], "yes")
    memory.shared("team", as_user="bob").add([said("pelicans fly at noon")], session_id="s")
    application.moods["ana", "team", "read"] = answer
    options: dict[str, Any] = {"shared": ["team"], "report": True}
    agent = create_agent(
        ScriptedChatModel(script=["Noon."]), middleware=[MemoryMiddleware(memory, **options)]
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
    expected = "ok" if answer == "yes" else "degraded"
    assert [one["recall"]["status"] for one in reports] == [expected] * 3
    for state in (sync, later):
        assert ("at noon" in state["memory_context"]) is (answer == "yes")


def test_tools_show_rooms_and_change_none_of_them(memory: Memory) -> None:
    team = memory.shared("team", as_user="bob")
    record = team.remember("Pelicans are shipped on Friday")
    tools = {t.name: t for t in create_memory_tools(memory, user_id="ana", shared=["team"])}
    shown = tools["search_records"].invoke({"query": "pelicans"})
    assert f"[{record.record_id}] (shared room team, added by bob)" in shown
    assert "(shared room team)" in tools["search_conversation"].invoke({"query": "ship pelicans"})
    wrong = {"record_id": record.record_id, "text": "Pelicans are shipped on Monday"}
    assert "There is no record" in tools["correct"].invoke(wrong)
    assert all("shared" not in str(tool.args) for tool in tools.values())
    assert team.get_records(record.record_id)[0].status == "active"
    documents = memory.user("ana", shared=["team"]).as_retriever(k=9).invoke("pelicans")
    assert {one.metadata.get("room") for one in documents} == {"team", None}


def test_filters_know_room_and_author(memory: Memory) -> None:
    ana = memory.user("ana", shared=["team"])
    for where, rooms in (
        ({"room": "team"}, ["team"]),
        ({"author": "bob"}, ["team"]),
        ({"room": {"$exists": False}}, [None]),
        ({"author": "ana"}, []),
    ):
        hits = ana.search_conversation("pelicans", where=where)
        assert [hit.room for hit in hits] == rooms, where


def test_the_command_line_reads_and_forgets(memory: Memory, tmp_path: Path) -> None:
    memory.close()
    place = ["--memory", str(tmp_path / "memory"), "--embeddings", "hash"]
    run = CliRunner()
    found = run.invoke(app, ["search", "pelicans", "--user", "ana", "--shared", "team", *place])
    assert "bob (shared room team)" in found.output
    named = ["--room", "team", "--author", "bob"]
    done = run.invoke(app, ["forget", "--user", "ana", *named, *place])
    assert "messages 1" in done.output
    left = run.invoke(app, ["search", "pelicans", "--user", "ana", "--shared", "team", *place])
    assert "Friday" not in left.output
    refused = run.invoke(app, ["mcp", "--http", "--user-header", "who", "--shared", "team"])
    assert "--shared needs --user" in str(refused.exception)


def test_the_class_is_what_memory_gives(memory: Memory) -> None:
    shared = memory.shared("team", as_user="ana")
    assert isinstance(shared, SharedMemory)
    assert (shared.id, shared.as_user) == ("team", "ana")
