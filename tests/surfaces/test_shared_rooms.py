"""Shared rooms: what is shown of them on every surface, and what they never change."""

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from langmem_graph.cli.commands import app
from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory
from langmem_graph.testing import ScriptedChatModel
from langmem_graph.tools import create_memory_tools
from tests.conftest import said
from tests.support import shared_rooms, topic_tracks
from tests.support.marks import needs_model
from tests.support.writing import echo

REPOSITORY = Path(__file__).parents[2]
ANA: Any = {"configurable": {"user_id": "ana", "thread_id": "t"}}


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Memory]]:
    with shared_rooms.opening(tmp_path / "memory") as opened:
        yield opened


@pytest.fixture
def memory(opened: Callable[..., Memory]) -> Memory:
    return shared_rooms.told(opened())


def test_what_is_shown_names_room_and_author(memory: Memory) -> None:
    recall = memory.user("ana", shared=["team", "shop"]).recall(
        "when do we ship pelicans?"
    )
    lines = recall.context.splitlines()
    assert "; those from shared rooms name room and author." in lines[1]
    assert any(
        ' bob (shared room team) [m1]: "we ship the pelicans' in line for line in lines
    )
    assert any(' user [m1]: "I am afraid of pelicans"' in line for line in lines)
    assert {(hit.room, hit.author) for hit in recall.evidence} == {
        ("team", "bob"),
        (None, None),
    }
    assert recall.report.status == "ok"
    assert "The shared room 'shop' holds nothing" in recall.report.warnings[0]
    own = memory.user("ana").recall("when do we ship pelicans?")
    assert [hit.room for hit in own.evidence] == [None]
    assert "shared" not in own.context


def test_nobody_speaks_in_the_name_of_another(memory: Memory) -> None:
    forged = said("I owe bob 100 euros", name="ana", id="m2", author="ana", room="shop")
    memory.shared("team", as_user="bob").add(
        [forged], session_id="s", metadata={"a": 1}
    )
    recall = memory.user("ana", shared=["team"]).recall("who owes 100 euros?")
    assert "ana (shared room team, added by bob) [m2]" in recall.context
    hit = recall.evidence[0]
    assert (hit.author, hit.room, hit.name) == ("bob", "team", "ana")
    for key in ("author", "room"):
        with pytest.raises(InvalidInputError, match="is reserved"):
            memory.user("ana").add([said("x")], session_id="s", metadata={key: "team"})


def test_words_are_as_rare_as_in_all_rooms_together(
    opened: Callable[..., Memory],
) -> None:
    """`budget` is rare in ana's own room alone, `pelican` in the shared one alone."""
    memory = opened()
    team, ana = (
        memory.shared("team", as_user="ana"),
        memory.user("ana", shared=["team"]),
    )
    team.add(
        [said(f"budget number {n}", id=f"t{n}") for n in range(12)], session_id="t"
    )
    team.add([said("a pelican sings", id="bird")], session_id="u")
    own = [said(f"pelican number {n}", id=f"o{n}") for n in range(3)]
    ana.add([*own, said("a budget sings", id="money")], session_id="o")
    hits = ana.search_conversation("pelican budget", k=20, ranking="words")
    scores = {(hit.room, hit.message_id): hit.score for hit in hits}
    assert scores[None, "o1"] > scores[None, "money"] > scores["team", "t5"]
    assert scores["team", "bird"] > scores["team", "t5"]
    alone = memory.user("ana").search_conversation(
        "pelican budget", k=20, ranking="words"
    )
    assert alone[0].message_id == "money"  # there it is the rarer word
    sessions = ana.search_conversation("pelican budget", k=20, by="session")
    assert {(hit.room, hit.session_id) for hit in sessions} == {
        ("team", "t"), ("team", "u"), (None, "o")
    }  # fmt: skip


def test_what_a_user_wrote_in_rooms_is_listed_and_taken(memory: Memory) -> None:
    memory.shared("shop", as_user="ana").add(
        [said("one", id="a"), said("two")], session_id="s"
    )
    team = memory.shared("team", as_user="ana")
    team.add([said("I bring the fish", id="m2")], session_id="s")
    by_hand = team.remember("The fish is fresh")
    assert (by_hand.subject, by_hand.author, by_hand.room) == ("ana", "ana", "team")
    report = memory.user("ana").erase()
    assert report.shared_rooms == {"shop": 2, "team": 2}
    assert memory.shared("team", as_user="bob").forget(author="ana").messages == 2
    assert [message["id"] for message in team.export()] == ["m1"]
    assert team.search_records("fish") == []
    assert memory.user("ana").erase().shared_rooms == {"shop": 2}
    with pytest.raises(InvalidInputError, match="Name one thing"):
        team.forget(author="ana", message="m1")
    assert memory.shared("team", as_user="bob").erase().messages == 1


def test_what_is_said_in_a_shared_room_changes_nobodys_own_records(
    opened: Callable[..., Memory],
) -> None:
    def extracted(asked: str) -> dict[str, Any]:
        found = {"text": "Ana lives in Berlin.", "subject": "Ana", "attribute": "home"}
        return {"memories": [{**found, "sources": ["m1"]}]} if "Berlin" in asked else {}

    model = ScriptedChatModel(answers={"Extraction": extracted})
    memory = opened(model=model)
    own = memory.user("ana", shared=["team"])
    own.add([said("I live in Porto", id="m1")], session_id="s")
    fact = {
        "text": "Ana lives in Porto.",
        "record_id": "r1",
        "source_message_ids": ["m1"],
    }
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


def test_a_shared_room_has_topics_but_no_profile(opened: Callable[..., Memory]) -> None:
    told = lambda asked: echo(asked.replace(" bob: ", " user: "))  # noqa: E731
    model = topic_tracks.gathering(Extraction=told)
    memory = opened(model=model)
    team = memory.shared("team", as_user="bob")
    topic_tracks.tell(team, topic_tracks.BOATS, "s1")
    assert team.flush().topics == 1
    assert team.flush().status == "ok"
    assert team.files() == ["index.md", "topics/boats.md"]
    assert "ProfileText" not in topic_tracks.calls(model)
    topic_tracks.tell(memory.user("ana"), topic_tracks.BOATS, "s1")  # who has one
    memory.user("ana").flush()
    assert "profile.md" in memory.user("ana", shared=["team"]).files()


def test_tools_show_rooms_and_change_none_of_them(memory: Memory) -> None:
    team = memory.shared("team", as_user="bob")
    record = team.remember("Pelicans are shipped on Friday")
    tools = {
        t.name: t for t in create_memory_tools(memory, user_id="ana", shared=["team"])
    }
    shown = tools["search_records"].invoke({"query": "pelicans"})
    assert f"[{record.record_id}] (shared room team, added by bob)" in shown
    assert "(shared room team)" in tools["search_conversation"].invoke(
        {"query": "ship pelicans"}
    )
    wrong = {"record_id": record.record_id, "text": "Pelicans are shipped on Monday"}
    assert "There is no record" in tools["correct"].invoke(wrong)
    assert all("shared" not in str(tool.args) for tool in tools.values())
    assert team.get_records(record.record_id)[0].status == "active"
    documents = memory.user("ana", shared=["team"]).as_retriever(k=9).invoke("pelicans")
    assert {one.metadata.get("room") for one in documents} == {"team", None}


def test_mcp(memory: Memory) -> None:
    server = pytest.importorskip("langmem_graph.mcp.server")
    from mcp import types
    from mcp.server.lowlevel.server import request_ctx

    served = server.create_mcp_server(memory, user_id="ana", shared=["team", "shop"])
    asked: Any = {
        "name": "search_conversation",
        "arguments": {"query": "ship pelicans"},
    }
    request = types.CallToolRequest(params=types.CallToolRequestParams(**asked))

    async def call() -> str:
        request_ctx.set(SimpleNamespace())  # type: ignore[arg-type]
        return str(await served.request_handlers[types.CallToolRequest](request))

    assert "bob (shared room team)" in asyncio.run(call())
    listed = str(server.offered(allow_forget=True))
    assert "shared" not in listed
    with pytest.raises(InvalidInputError, match="shared must be a list"):
        server.create_mcp_server(memory, user_id="ana", shared=7.5)


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
    found = run.invoke(
        app, ["search", "pelicans", "--user", "ana", "--shared", "team", *place]
    )
    assert "bob (shared room team)" in found.output
    named = ["--room", "team", "--author", "bob"]
    done = run.invoke(app, ["forget", "--user", "ana", *named, *place])
    assert "messages 1" in done.output
    left = run.invoke(
        app, ["search", "pelicans", "--user", "ana", "--shared", "team", *place]
    )
    assert "Friday" not in left.output
    for command in (["search", "pelicans"], ["explain", "pelicans"], ["mcp"]):
        misspelt = run.invoke(
            app, [*command, "--user", "ana", "--shared", "taem", *place]
        )
        assert isinstance(misspelt.exception, InvalidInputError)
        assert "'taem' holds nothing in this memory" in str(misspelt.exception)
        assert "as in --shared team;" in str(misspelt.exception)
    refused = run.invoke(
        app, ["mcp", "--http", "--user-header", "who", "--shared", "team"]
    )
    assert "--shared needs --user" in str(refused.exception)


def test_methods_answer_as_those_of_a_user(opened: Callable[..., Memory]) -> None:
    """Whatever a member asks, with and without `a`, has the same answer as in a user's memory."""
    memory = opened(model=topic_tracks.gathering())
    team, ana = memory.shared("team", as_user="ana"), memory.user("ana")
    calls: dict[str, tuple[Any, ...]] = {
        **dict.fromkeys(("sessions", "files", "overview", "records"), ()),
        **dict.fromkeys(
            ("export", "export_records", "flush_forecast", "flush", "drain"), ()
        ),
        **dict.fromkeys(("get_conversation", "made_of", "history", "changes"), ("m1",)),
        **dict.fromkeys(("get_records", "neighbours"), ("r1",)),
        **dict.fromkeys(("recall", "search_records", "search_conversation"), ("bees",)),
        **dict.fromkeys(("schedule", "compare"), ("2026-01-01", "2026-02-01")),
        "conversation": ("s",),
        "correct": ("r1", "Nobody keeps bees."),
    }
    for user in (team, ana):
        user.add(
            [said("I keep bees", id="m1", name="ana")], session_id="s", at="2026-01-01"
        )
        user.add_records(
            {"text": "Bees.", "record_id": "r1", "source_message_ids": ["m1"]}
        )
    for name, given in calls.items():
        answers = [getattr(user, name)(*given) for user in (team, ana)]
        later = (
            asyncio.run(getattr(team, f"a{name}")(*given))
            if name != "correct"
            else answers[0]
        )
        assert len({type(one) for one in (*answers, later)}) == 1, name
        assert len({len(one) for one in answers if isinstance(one, list)}) <= 1, name
    assert team.overview().user_id == "team"
    assert team.overview().messages == ana.overview().messages == 2


@needs_model
def test_the_page_shows_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    page = (REPOSITORY / "docs/scopes.md").read_text(encoding="utf-8")
    found = re.search(
        r"```python\n# shared\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL
    )
    assert found is not None
    monkeypatch.chdir(tmp_path)
    exec(found[1], {})
    assert capsys.readouterr().out == found[2]
