"""What the users' memories hold, what is due, and what the model calls have cost."""

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from langmem_graph.cli.commands import app
from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory
from langmem_graph.settings import ExtractionSettings, Settings
from tests.conftest import TroubledEmbeddings, said
from tests.storage.test_call_log import AT, note, write
from tests.support.models import steady_model


@pytest.fixture
def filled(memory: Memory) -> Memory:
    """A user with calls on two days, and another one."""
    for name in ("u", "v"):
        memory.user(name).add(
            [said("one", id="a"), said("two", id="b")], session_id="s"
        )
    later = AT + timedelta(days=1)
    write(memory, [note("plan"), note("extract"), note("extract", at=later)], [])
    write(memory, [note("extract", at=later, input_tokens=100)], [], "v")
    return memory


def test_usage_adds_up_by_day_and_purpose(filled: Memory) -> None:
    first, second = date(2025, 3, 1), date(2025, 3, 2)
    own = filled.user("u").usage()
    assert [(line.day, line.purpose, line.calls) for line in own.lines] == [
        (first, "extract", 1),
        (first, "plan", 1),
        (second, "extract", 1),
    ]
    assert (own.calls, own.tokens, own.seconds) == (3, 36, pytest.approx(0.0045))
    together = filled.usage()
    assert (together.calls, together.tokens) == (4, 36 + 103)
    assert [line.calls for line in together.lines] == [1, 1, 2]


def test_usage_since_a_time(filled: Memory) -> None:
    assert filled.user("u").usage(since="2025-03-02").calls == 1
    assert filled.usage(since="2025-03-02").calls == 2
    assert filled.user("nobody").usage().lines == []
    with pytest.raises(InvalidInputError):
        filled.usage(since="whenever")


def test_users_tell_what_is_due(reopen: Any, troubled: TroubledEmbeddings) -> None:
    before = datetime.now(UTC)
    with reopen(embeddings=troubled) as memory:
        assert memory.users() == []
        troubled.down = True
        memory.user("ana").add([said("one"), said("two", role="tool")], session_id="s")
        (ana,) = memory.users()
        assert (ana.user_id, ana.messages, ana.sessions, ana.records) == (
            "ana",
            2,
            1,
            0,
        )
        assert (ana.to_embed, ana.to_read, ana.vectors) == (2, 1, 0)
        assert ana.oldest_due is not None
        assert before - timedelta(seconds=1) <= ana.oldest_due <= datetime.now(UTC)
        troubled.down = False
        memory.user("ana").add([said("three")], session_id="s")
        assert memory.users()[0].to_embed == 0


def test_listing_users_opens_no_room(filled: Memory) -> None:
    directory = filled._services.directory
    before = directory.open_users()
    filled.users()
    assert directory.open_users() == before


def test_the_command_line_lists_both(filled: Memory) -> None:
    place = ["--memory", str(filled.path)]
    run = CliRunner().invoke
    listed = run(app, ["users", "--json", *place])
    assert [one["user_id"] for one in json.loads(listed.stdout)] == ["u", "v"]
    shown = run(app, ["usage", "--user", "u", *place])
    assert "3 calls, 36 tokens" in shown.stdout
    assert "extract" in shown.stdout
    assert (
        json.loads(run(app, ["usage", "--json", *place]).stdout)["lines"][2]["calls"]
        == 2
    )
    assert "u" in run(app, ["users", *place]).stdout


def test_shared_rooms_are_listed_with_what_is_due(tmp_path: Path) -> None:
    path = tmp_path / "m"
    with Memory(path, embeddings="hash", authorize=lambda *_: True) as memory:
        memory.user("team").add(said("mine"), session_id="s")
        memory.shared("team", as_user="ana").add([said("a"), said("b")], session_id="s")
        own, team = memory.users()
        assert (own.user_id, own.is_shared, own.to_read) == ("team", False, 1)
        assert (team.user_id, team.is_shared, team.to_read) == ("team", True, 2)
        assert memory.shared("team", as_user="bob").overview() == team
    run, place = CliRunner().invoke, ["--memory", str(path)]
    assert "shared room team" in run(app, ["users", *place]).stdout
    assert "0 calls" in run(app, ["usage", "--room", "team", *place]).stdout
    refused = run(app, ["usage", "--room", "r", "--user", "u", *place])
    assert "give one of them" in str(refused.exception)


async def test_the_asynchronous_twins_tell_the_same(filled: Memory) -> None:
    assert await filled.ausers() == filled.users()
    assert await filled.ausage() == filled.usage()
    assert await filled.user("u").ausage() == filled.user("u").usage()


def test_reading_pauses_when_the_budget_of_the_day_is_spent(tmp_path: Path) -> None:
    settings = Settings(extraction=ExtractionSettings(daily_tokens=1))
    with Memory(
        tmp_path, embeddings="hash", model=steady_model(), settings=settings
    ) as memory:
        ana = memory.user("ana")
        ana.add(
            [said("I moved to Faro."), said("Noted.", role="assistant")], session_id="1"
        )
        assert ana.flush().read == 2, "nothing was spent before it"
        ana.add(
            [said("I like figs."), said("Noted.", role="assistant")], session_id="2"
        )
        paused = ana.flush()
        assert (paused.status, paused.read, paused.pending, paused.llm_calls) == (
            "partial",
            0,
            2,
            0,
        )
        assert paused.problems[0].startswith("budget: the 1 tokens of this day")
        write_yesterday(ana, memory)
        assert ana.flush().read == 2


def write_yesterday(user: Any, memory: Memory) -> None:
    """Let all calls so far have been made the day before."""
    with (
        memory._services.room(user.id) as room,
        room.database.write_transaction() as connection,
    ):
        connection.exec_driver_sql("UPDATE calls SET at = datetime(at, '-1 day')")
