"""Shared rooms on PostgreSQL: the walls between rooms hold for them, and rank as in a directory."""

import random
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from langmem_graph.cli.upkeep import _move
from langmem_graph.memory import Memory
from langmem_graph.rooms import shared_key
from langmem_graph.storage.postgres_database import room_of
from tests.conftest import said
from tests.support import shared_rooms
from tests.support.shared_rooms import Application


@pytest.mark.parametrize("count", [8, pytest.param(500, marks=pytest.mark.stress)])
def test_no_foreign_row_whatever_the_application_answers(
    database: str, count: int
) -> None:
    application = Application(random.Random(11))
    options: dict[str, Any] = {"embeddings": "hash", "settings": shared_rooms.SETTINGS}
    options["model"] = shared_rooms.reasoner()
    with Memory(database, authorize=application, **options) as memory:
        shared_rooms.fill(memory, application)
        try:
            assert shared_rooms.check(memory, application, count, hanging=0.03) == 0
        finally:
            application.released.set()


def test_the_walls_hold(database: str) -> None:
    """A user with a room's name, the room, and another room: each sees its own rows alone."""
    with Memory(database, embeddings="hash", authorize=lambda *_: True) as memory:
        memory.user("team").add(said("of the user", id="m1"), session_id="s")
        for room in ("team", "shop"):
            memory.shared(room, as_user="ana").add(
                said(f"of {room}", id="m1"), session_id="s"
            )
        report = memory.user("ana").erase()
        assert report.shared_rooms == {"team": 1, "shop": 1}
        listed = [(one.user_id, one.is_shared) for one in memory.users()]
        assert listed == [("team", False), ("shop", True), ("team", True)]
    keys = {
        "of the user": "team",
        "of team": shared_key("team"),
        "of shop": shared_key("shop"),
    }
    with psycopg.connect(database) as connection:
        connection.execute("SET LOCAL ROLE langmem_graph_rooms")
        for text, key in keys.items():
            room = str(room_of(key))
            for setting in ("app.room", "app.rooms"):
                connection.execute("SELECT set_config(%s, %s, true)", [setting, room])
            seen = connection.execute(
                "SELECT text FROM langmem_graph.messages"
            ).fetchall()
            assert seen == [(text,)]


def test_ranking_is_that_of_a_directory_and_rooms_are_moved(
    database: str, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"embeddings": "hash", "authorize": lambda *_: True}
    chance = random.Random(5)
    words = "pelican budget meeting friday harbour winter coffee letter".split()
    with Memory(tmp_path, **options) as ledger, Memory(database, **options) as rows:
        for name in ("team", "shop"):
            texts = [" ".join(chance.choices(words, k=5)) for _ in range(30)]
            messages = [said(text, id=f"m{n}") for n, text in enumerate(texts)]
            ledger.shared(name, as_user="bob").add(messages, session_id="s")
        own = [said(" ".join(chance.choices(words, k=3)), id=f"m{n}") for n in range(5)]
        ledger.user("ana").add(own, session_id="s")
        _move(ledger, rows, None)
        for method in ("words", "hybrid"):
            found = [
                [
                    (hit.room, hit.message_id, round(hit.score, 6))
                    for hit in memory.user(
                        "ana", shared=["team", "shop"]
                    ).search_conversation("pelican coffee", k=20, ranking=method)
                ]
                for memory in (ledger, rows)
            ]
            assert sorted(map(str, found[0])) == sorted(map(str, found[1]))
            assert len({room for room, _, _ in found[0]}) > 1


def test_edges_of_a_teams_decision_are_followed(database: str) -> None:
    with shared_rooms.linked(database) as memory:
        found = shared_rooms.shown_along_an_edge(memory)
        assert shared_rooms.FLOOD in found.context
        assert (
            "(shared room team, added by bob)" in found.context.split("Check this")[1]
        )


def test_a_room_that_holds_nothing_is_named(database: str, caplog: Any) -> None:
    with shared_rooms.misspelt(database) as memory:
        shared_rooms.check_misspelt(memory, caplog)


def test_a_shared_room_is_looked_for_once(database: str) -> None:
    """Opening it says whether it holds anything: nothing asks for that in a transaction before."""
    begun = list[str]()

    def note(_: Any, __: Any, statement: str, *more: Any) -> None:
        begun.extend([statement] if statement.startswith("BEGIN") else [])

    def transactions(*rooms: str) -> int:
        begun.clear()
        found = memory.user("ana", shared=rooms).recall("pelicans").evidence
        assert {hit.room for hit in found} == {None, *rooms}
        return len(begun)

    with Memory(database, embeddings="hash", authorize=lambda *_: True) as memory:
        for room in ("team", "shop"):
            memory.shared(room, as_user="bob").add(
                said(f"pelicans of {room}"), session_id="s"
            )
        memory.user("ana").add(said("I like tea"), session_id="s")
        transactions("team", "shop")  # opens the rooms
        sa.event.listen(sa.Engine, "before_cursor_execute", note)
        try:
            assert transactions("team", "shop") - transactions("team") == 3
        finally:
            sa.event.remove(sa.Engine, "before_cursor_execute", note)
