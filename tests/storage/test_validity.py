"""Which records hold at which time: ends to come, ends at once, and what never held."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, select

from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory
from langmem_graph.schemas import NO_LONGER
from langmem_graph.storage import (
    deletion,
    record_changes,
    record_effects,
    record_queries,
    record_writes,
    undo_changes,
)
from langmem_graph.storage.add_records import draft
from langmem_graph.storage.effects import ADOPT, CONFIRM, ENDING, SKIP, fold
from langmem_graph.storage.reading import EVERYTHING
from langmem_graph.storage.record_writes import Change, Words, naive
from langmem_graph.storage.tables import effects, records
from tests.conftest import said
from tests.support.changes import Talk
from tests.support.examples import examples

NOW = datetime.now(UTC).replace(microsecond=0)
SAID = 12
"""Messages, said 100 days ago and on each of the following days."""
SPAN = range(-110, 111)


def day(offset: float) -> datetime:
    return NOW + timedelta(days=offset)


def text(offset: float) -> str:
    return day(offset).isoformat()


# ---- the public API


@pytest.mark.parametrize(
    "relation", ["ended", "cancels", "completes", "replaces", "reschedules"]
)
def test_what_ends_in_the_future_holds_until_then(
    memory: Memory, relation: str
) -> None:
    talk = Talk(memory)
    talk.say("m0", at=text(-9))
    talk.say("m1", at=text(-8))
    talk.record("old", "m0")
    by = {"by": "new"} if relation in ("replaces", "reschedules") else {}
    if by:
        talk.record("new", "m1", valid_from=text(30))
    talk.change("old", relation, "m1", since=text(30), **by)
    assert talk.status("old") == "superseded"
    assert talk.holding() == ["old"]
    assert talk.held(text(29)) == ["old"]
    assert talk.held(text(31)) == list(by.values())
    talk.user.forget(message="m1")
    assert (talk.status("old"), talk.holding()) == ("active", ["old"])


@pytest.mark.parametrize(
    "since", [None, text(-20), text(-2)], ids=["unsaid", "then", "lately"]
)
def test_what_has_ended_holds_no_longer_at_once(
    memory: Memory, since: str | None
) -> None:
    talk = Talk(memory)
    talk.say("m0", at=text(-9))
    talk.say("m1", at=text(-1))
    talk.record("old", "m0")
    talk.record("later", "m0", text="The record that is to end later.")
    # so that the dates are looked at
    talk.change("later", "ended", "m1", since=text(30))
    talk.change("old", "ended", "m1", since=since)
    assert talk.holding() == ["later"]


def test_what_a_sender_with_a_fast_clock_ends_is_over_at_once(memory: Memory) -> None:
    talk = Talk(memory)
    talk.say("m0", at=text(-9))
    talk.say("m1", at=text(0.2))
    for name in ("ended", "replaced", "corrected"):
        talk.record(name, "m0")
    talk.change("ended", "ended", "m1")
    talk.replace("replaced", "new", "m1")
    talk.replace("corrected", "right", "m1", "corrects")
    assert talk.holding() == ["new", "right"]


def test_a_schedule_item_is_looked_up_until_its_cancelling_takes_effect(
    memory: Memory,
) -> None:
    talk = Talk(memory)
    talk.say("m0", at=text(-9))
    talk.say("m1", at=text(-8))
    event = {"start": text(1), "recurrence": "FREQ=DAILY"}
    talk.record("yoga", "m0", facet="schedule", event_time=event)
    talk.change("yoga", "cancels", "m1", since=text(30))
    with (
        memory._services.room("u") as room,
        room.database.read_transaction(EVERYTHING) as connection,
    ):
        assert [row.n for row in record_queries.scheduled(connection, day(29))] == [1]
        assert record_queries.scheduled(connection, day(31)) == []
        assert 1 in record_queries.holding(connection, at(29))
        assert 1 not in record_queries.holding(connection, at(31))


def test_a_record_with_an_end_of_its_own_ends(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(days=31)

    talk = Talk(memory)
    talk.say("m0", at=text(-9))
    talk.record("visa", "m0", valid_to=text(30))
    assert talk.holding() == ["visa"]
    monkeypatch.setattr(record_queries, "datetime", Later)
    assert talk.holding() == []


def test_a_record_told_to_end_later_holds_beside_its_successor_until_then(
    memory: Memory,
) -> None:
    """The successor was said to hold from today on, and the words name a later end."""
    talk = Talk(memory)
    talk.say("m0", at=text(-9))
    talk.say("m1", at=text(-8))
    talk.record("old", "m0")
    talk.record("new", "m1")
    talk.change("old", "replaces", "m1", by="new", since=text(30))
    assert talk.holding() == ["old", "new"]


# ---- properties


def at(offset: float) -> datetime:
    """A time as the ledger stores it."""
    return day(offset).replace(tzinfo=None)


class _RollBackError(Exception):
    pass


@contextmanager
def scratch(memory: Memory) -> Iterator[Connection]:
    """A transaction that leaves nothing behind."""
    try:
        with (
            memory._services.room("u") as room,
            room.database.write_transaction() as connection,
        ):
            yield connection
            raise _RollBackError
    except _RollBackError:
        pass


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    path: Path = tmp_path_factory.mktemp("validity")
    with Memory(path, embeddings="hash") as memory:
        talk = [said(f"words {n}", id=f"m{n}", at=text(n - 100)) for n in range(SAID)]
        memory.user("u").add(talk, session_id="s")
        yield memory


usual = settings(
    max_examples=examples(30),
    deadline=timedelta(seconds=30),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
sinces = st.one_of(st.none(), st.integers(-99, 100))
endings = st.lists(
    st.tuples(st.sampled_from(["ended", "cancels", "completes", "corrects"]), sinces),
    max_size=6,
)


def insert(
    connection: Connection, name: str, message: int, begins: float, **fields: Any
) -> int:
    found = record_queries.message_numbers(connection, [f"m{message}"])
    row = {
        "text": name,
        "source_message_ids": [f"m{message}"],
        "valid_from": text(begins),
    }
    made = draft({**row, "record_id": name, **fields}, found, 100, "test")
    change = Change.new("test")
    return record_writes.insert_record(connection, made, change)


def end(
    connection: Connection, n: int, relation: Any, message: int, since: int | None
) -> None:
    """What `message` says of a record, as extraction stores it."""
    change = Change.new("test")
    facts = record_queries.facts_of(connection, [n])[n]
    said_at = message - 100
    then = day(said_at if since is None else since)
    if relation == "corrects":
        then, since = record_queries.aware(facts.valid_from), None
    told = None if since is None else naive(day(since))
    words = Words(relation, message + 1, f"words {message}", since=told)
    record_effects.end_record(connection, n, then, change, words)


def state(connection: Connection, n: int) -> Any:
    facts = record_queries.facts_of(connection, [n])[n]
    return facts.status, facts.valid_to


def agrees(connection: Connection, n: int, begins: int, over: int | None) -> None:
    """The record holds from `begins` until `over`, in the past, now and in the future."""
    for offset in SPAN:
        holds = begins <= offset + 0.5 and (over is None or offset + 0.5 < over)
        assert (
            n in record_queries.numbers_true_at(connection, at(offset + 0.5))
        ) == holds
        if offset >= 0:
            assert (n in record_queries.holding(connection, at(offset + 0.5))) == holds
    present = record_queries.true_now(connection)
    still = record_queries.active(connection, [n]) if present is None else present
    assert (n in still) == (begins <= 0 and (over is None or over > 0))


@usual
@given(begins=st.integers(-105, 50), told=endings)
def test_a_record_holds_until_the_first_of_its_ends(
    shared: Memory, begins: int, told: list[tuple[str, int | None]]
) -> None:
    with scratch(shared) as connection:
        n = insert(connection, "r", 0, begins)
        ends = []
        for place, (relation, since) in enumerate(told, 1):
            end(connection, n, relation, place, since)
            over = (
                begins
                if relation == "corrects"
                else place - 100
                if since is None
                else since
            )
            ends.append(max(begins, over))
        agrees(connection, n, begins, min(ends, default=None))


@usual
@given(steps=st.lists(st.integers(0, 40), min_size=1, max_size=5))
def test_of_a_chain_one_record_holds_at_every_time(
    shared: Memory, steps: list[int]
) -> None:
    """Each record takes the place of the one before some days later, also in days to come."""
    with scratch(shared) as connection:
        begins = [-100]
        chain = [insert(connection, "r0", 0, -100)]
        for place, step in enumerate(steps, 1):
            begins.append(begins[-1] + step)
            chain.append(insert(connection, f"r{place}", place, begins[-1]))
            change = Change.new("test")
            since = day(begins[-1])
            words = Words("replaces", place + 1, "w", naive(since))
            older, newer = chain[-2:]
            record_effects.supersede(connection, older, newer, since, change, words)
        for offset in (one + 0.5 for one in SPAN):
            begun = [
                n for n, first in zip(chain, begins, strict=True) if first <= offset
            ]
            expected = set(begun[-1:])
            assert (
                set(record_queries.numbers_true_at(connection, at(offset))) == expected
            )
            if offset > 0:
                assert record_queries.holding(connection, at(offset)) == expected


OTHER = ["adopts", "skips_once", "confirms"]
actions = st.lists(
    st.tuples(
        st.sampled_from([*sorted(NO_LONGER - {"replaces", "reschedules"}), *OTHER]),
        sinces,
    ),
    min_size=1,
    max_size=6,
)


def act(
    connection: Connection, n: int, relation: Any, message: int, since: int | None
) -> None:
    """Let a message end, settle, shorten or confirm a record."""
    if relation in NO_LONGER:
        end(connection, n, relation, message, since)
        return
    change = Change.new("test", f"words {message}")
    ops: dict[str, tuple[str, dict[str, Any]]] = {
        "adopts": (ADOPT, {"confirmation": "confirmed"}),
        "skips_once": (SKIP, {"skipped": [f"day {message}"]}),
        "confirms": (CONFIRM, {}),
    }
    op, values = ops[relation]
    words = Words(relation, message + 1, f"words {message}")
    record_effects.change_record(connection, n, op, change, values, words)
    record_writes.add_sources(connection, n, [message + 1], supporting=True)


def whole_state(connection: Connection, n: int) -> Any:
    record = record_queries.records_by_number(connection, [n])[n]
    same = {
        "status",
        "valid_to",
        "confirmation",
        "event_time",
        "message_ids",
        "supporting_ids",
    }
    return record.model_dump(include=same)


def live(
    connection: Connection, told: list[tuple[str, int | None]], left: set[int]
) -> int:
    """A record, and what those messages that are left do to it."""
    row = {"confirmation": "draft", "event_time": {"start": "2099-01-01"}}
    n = insert(connection, "r", 0, -100, **row)
    for place, (relation, since) in enumerate(told, 1):
        if place in left:
            act(connection, n, relation, place, since)
    return n


@settings(usual, max_examples=examples(80))
@given(told=actions, data=st.data())
def test_a_forgotten_message_might_never_have_been_said(
    shared: Memory, told: list[tuple[str, int | None]], data: Any
) -> None:
    """Whatever is forgotten, in whatever order: what is left is what the others alone had made."""
    every = set(range(1, len(told) + 1))
    gone = data.draw(st.lists(st.sampled_from(sorted(every)), unique=True))
    with scratch(shared) as connection:
        expected = whole_state(connection, live(connection, told, every - set(gone)))
    with scratch(shared) as connection:
        n = live(connection, told, every)
        for message in gone:
            deletion.forget_messages(connection, [message + 1])
        assert whole_state(connection, n) == expected
        rows = record_changes.changes_of(connection, [n]).get(n, [])
        assert {one.quote for one in rows} == {
            f"words {one}" for one in every - set(gone)
        }


steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["replaces", "corrects", "ended", "confirms", "undo", "forget"]
        ),
        st.integers(0, 9),
        sinces,
    ),
    min_size=3,
    max_size=8,
)


def replace(connection: Connection, old: int, relation: Any, message: int) -> int:
    """A new record of a message takes the place of an older one."""
    change, at_message = Change.new("test", f"words {message}"), day(message - 100)
    found = record_queries.message_numbers(connection, [f"m{message}"])
    made = draft(
        {"text": f"r{message}", "source_message_ids": [f"m{message}"]},
        found,
        99,
        "test",
    )
    new = record_writes.insert_record(connection, made, change)
    words = Words(relation, message + 1, f"words {message}")
    record_effects.supersede(connection, old, new, at_message, change, words)
    return new


def check_ends(connection: Connection) -> None:
    """A record is superseded exactly where something that counts has ended it."""
    told = (
        "SELECT record FROM effects WHERE NOT undone"
        f" AND op IN ({', '.join(map(repr, sorted(ENDING)))})"
    )
    newer = (
        "SELECT target FROM links JOIN records ON n = source"
        " WHERE links.kind = 'supersedes' AND status != 'discarded'"
    )
    ended = {n for (n,) in connection.exec_driver_sql(f"{told} UNION {newer}")}
    rows = connection.exec_driver_sql("SELECT n, status FROM records").all()
    assert {n for n, status in rows if status == "superseded"} == {
        n for n, status in rows if status != "discarded" and n in ended
    }
    assert connection.exec_driver_sql("PRAGMA foreign_key_check").all() == []
    check_fold(connection)


def check_fold(connection: Connection) -> None:
    """What is stored of each record is what its effects make."""
    for n, several in record_effects.effects_of(
        connection, every_number(connection)
    ).items():
        folded = fold(several)
        row = connection.execute(select(records).where(records.c.n == n)).one()
        assert vars(folded) == {name: row._mapping[name] for name in vars(folded)}


def every_number(connection: Connection) -> list[int]:
    return list(connection.scalars(select(records.c.n)))


@settings(usual, max_examples=examples(80))
@given(plan=steps)
def test_whatever_is_undone_and_forgotten_the_ends_are_right(
    shared: Memory, plan: list[tuple[str, int, int | None]]
) -> None:
    with scratch(shared) as connection:
        insert(connection, "r0", 0, -100)
        left = {0}
        for message, (what, which, since) in enumerate(plan, 1):
            active = record_queries.all_numbers(connection)
            target = active[which % len(active)] if active else None
            named = sorted(left)[which % len(left)]
            if what == "forget":
                deletion.forget_messages(connection, [named + 1])
                left = (left - {named}) or {message}
            elif what == "undo":
                undo_message(connection, f"m{named}")
            elif target is not None:
                left.add(message)
                if what in ("replaces", "corrects"):
                    replace(connection, target, what, message)
                else:
                    act(connection, target, what, message, since)
            check_ends(connection)
        forgotten = set(range(len(plan) + 1)) - left
        words = [row.quote for row in connection.execute(select(effects))]
        assert not {f"words {message}" for message in forgotten} & set(words)


def undo_message(connection: Connection, message_id: str) -> None:
    """Undo what a message caused, unless later changes build on it."""
    try:
        undone = undo_changes.caused_by(connection, message_id)
    except InvalidInputError as error:
        assert "first" in str(error)
        return
    undo_changes.take_back(connection, undone)
    assert undo_changes.caused_by(connection, message_id).touched() == []


def test_what_ended_and_begins_again_by_hand_is_said_anew(memory: Memory) -> None:
    ana = memory.user("ana")
    first = ana.remember("I live in Porto.")
    assert ana.remember("I live in Porto.").record_id == first.record_id, (
        "it still holds"
    )
    moved = ana.correct(first.record_id, "I live in Lisbon.")
    again = ana.remember("I live in Porto.")
    assert again.said_at > moved.said_at > first.said_at
    assert again.message_ids != first.message_ids
    line = ana.recall("Where do I live?").context.splitlines()[-2]
    assert line.endswith(']: "I live in Porto."'), (
        "the last word is quoted, without a label"
    )
    ana.undo(again.record_id)
    assert ana.remember("I live in Porto.").said_at > again.said_at
