"""Retention: what expires, what stays, and that nothing which had ended holds again."""

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_graph import Memory
from langmem_graph.errors import InvalidInputError, SchemaTooNewError
from langmem_graph.settings import KeepDays, Settings
from langmem_graph.storage import expiry
from langmem_graph.storage.message_queries import damage
from langmem_graph.view import own_view
from tests.conftest import let_go
from tests.support.changes import Talk
from tests.support.files import folder
from tests.support.traces import hits

NOW = datetime.now(UTC)


def ago(days: float) -> str:
    return (NOW - timedelta(days=days)).isoformat()


@pytest.fixture
def talk(memory: Memory) -> Talk:
    """Messages that were said 100, 50 and 1 day ago."""
    made = Talk(memory)
    for message, days in (("old", 100), ("late", 50), ("young", 1)):
        made.say(message, at=ago(days), text=f"the words of {message}")
    return made


def ids(rows: list[dict[str, Any]], key: str = "record_id") -> list[str]:
    return [row[key] for row in rows]


def test_without_limits_nothing_expires(talk: Talk) -> None:
    talk.record("a", "old")
    assert talk.user.expire().messages == 0
    assert talk.memory.expire() == []


def test_old_messages_go_with_the_records_that_nobody_says_again(talk: Talk) -> None:
    talk.record("a", "old")
    talk.record("b", "old", "young")
    talk.user.keep_days(messages=60)
    report = talk.user.expire()
    assert (report.user_id, report.messages, report.records, report.kept) == (
        "u",
        1,
        1,
        1,
    )
    assert ids(talk.user.export(), "id") == ["late", "young"]
    assert talk.user.get_records("b")[0].message_ids == ["young"]
    assert talk.user.doctor(sample=0).ok
    assert talk.user.expire().messages == 0


def test_a_record_that_loses_several_messages_is_counted_once(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "_AT_ONCE", 1)
    talk.record("a", "old", "late", "young")
    talk.user.keep_days(messages=30)
    report = talk.user.expire()
    assert (report.messages, report.records, report.kept) == (2, 0, 1)


def test_a_record_that_a_younger_message_confirms_stays_with_that_message(
    talk: Talk,
) -> None:
    talk.record("a", "old")
    talk.change("a", "confirms", "young")
    talk.user.keep_days(messages=60)
    talk.user.expire()
    (kept,) = talk.user.get_records("a")
    assert (kept.message_ids, kept.supporting_ids) == (["young"], [])
    assert talk.user.forget(message="young").records == 1


def test_values_quote_no_message_that_has_expired(talk: Talk, tmp_path: Path) -> None:
    talk.say("told", at=ago(90), text="it costs zqxv77 crowns")
    values = [
        {"raw": "zqxv77", "value": "77"},
        {"raw": "young", "value": "young"},
        {"value": "x"},
    ]
    talk.record("a", "told", "young", values=values)
    assert hits(tmp_path, ["zqxv77"])
    talk.user.keep_days(messages=60)
    assert talk.user.expire().traces_left is False
    assert talk.user.get_records("a")[0].values == values[1:]
    assert hits(tmp_path, ["zqxv77", "the words of old"]) == []


def test_records_may_expire_before_their_messages(talk: Talk) -> None:
    talk.record("a", "old")
    talk.record("b", "old", "young")
    talk.user.keep_days(records=60)
    report = talk.user.expire()
    assert (report.messages, report.records) == (0, 1)
    assert ids(talk.user.export_records()) == ["b"]
    assert len(talk.user.export()) == 3


def test_what_an_expired_message_ended_stays_ended(talk: Talk) -> None:
    talk.record("home", "young")
    talk.change("home", "ended", "old")
    assert talk.status("home") == "superseded"
    talk.user.keep_days(messages=60)
    talk.user.expire()
    assert talk.status("home") == "superseded"
    assert [one.op for one in talk.user.history("home")][-1] == "expire"
    assert talk.user.changes("home") == []


def test_what_an_expired_record_superseded_stays_superseded(talk: Talk) -> None:
    talk.record("porto", "young")
    talk.record("leeds", "old", supersedes=["porto"])
    talk.user.keep_days(messages=60)
    talk.user.expire()
    assert talk.status("porto") == "superseded"
    assert talk.user.search_records("record")[0].labels[0].relation == "ended"


def test_forgetting_something_else_later_does_not_make_it_true_again(
    talk: Talk,
) -> None:
    """Without the note of the end, forgetting its second end would take the record back."""
    talk.record("home", "young")
    talk.change("home", "ended", "old")
    talk.change("home", "ended", "late")
    talk.user.keep_days(messages=60)
    talk.user.expire()
    talk.user.forget(message="late")
    assert talk.status("home") == "superseded"


@pytest.mark.parametrize("by_words", [True, False])
def test_forgetting_what_repeated_the_successor_does_not_either(
    talk: Talk, by_words: bool
) -> None:
    talk.record("porto", "late")
    if by_words:
        talk.replace("porto", "leeds", "old")
    else:
        talk.record("leeds", "old", supersedes=["porto"])
    talk.change("leeds", "confirms", "young")
    talk.user.keep_days(messages=60)
    talk.user.expire()
    assert talk.status("leeds") == "active"
    talk.user.forget(message="young")
    assert talk.status("porto") == "superseded"


def test_undo_still_takes_back_what_an_expired_message_did(talk: Talk) -> None:
    talk.record("home", "young")
    talk.change("home", "ended", "old")
    talk.user.keep_days(messages=60)
    talk.user.expire()
    talk.user.undo("home")
    assert talk.status("home") == "active"


def test_a_users_own_limits_come_before_those_of_the_memory(memory: Memory) -> None:
    for user in ("ana", "bob"):
        Talk(memory, user).say("old", at=ago(100))
    memory.user("ana").keep_days(messages=1_000)
    memory.keep_days(messages=60)
    (report,) = memory.expire()
    assert (report.user_id, report.messages) == ("bob", 1)
    memory.user("ana").keep_days()
    assert [one.user_id for one in memory.expire()] == ["ana"]


def test_limits_of_a_user_are_stored_and_go_with_the_user(
    reopen: Callable[..., Memory],
) -> None:
    Talk(reopen(), "ana").say("old", at=ago(100))
    reopen().user("ana").keep_days(messages=60)
    assert reopen().user("ana").expire().messages == 1
    ana = reopen().user("ana")
    ana.erase()
    Talk(reopen(), "ana").say("old", at=ago(100))
    assert reopen().user("ana").expire().messages == 0


@pytest.mark.parametrize("days", [{"messages": 0}, {"messages": 5, "records": 6}])
def test_unusable_limits_are_refused(memory: Memory, days: dict[str, Any]) -> None:
    for owner in (memory, memory.user("ana")):
        with pytest.raises(InvalidInputError, match="As in messages=365"):
            owner.keep_days(**days)
    assert memory.users() == []


def test_the_settings_say_it_for_all(tmp_path: Path) -> None:
    kept = Settings(keep_days=KeepDays(messages=60))
    memory = Memory(tmp_path / "m", embeddings="hash", settings=kept)
    Talk(memory, "ana").say("old", at=ago(100))
    assert [one.messages for one in memory.expire()] == [1]
    let_go(memory)


def test_limits_longer_than_time_itself_keep_everything(talk: Talk) -> None:
    for days in (10**6, 10**9, 10**12):
        talk.user.keep_days(messages=days)
        assert talk.user.expire().messages == 0


def test_one_memory_that_cannot_be_opened_keeps_no_other_from_expiring(
    reopen: Callable[..., Memory],
) -> None:
    memory = reopen()
    for user in ("ana", "bob", "eve", "zoe"):
        Talk(memory, user).say("old", at=ago(100))
    memory.close()
    damaged, newer = (folder(memory, user) / "ledger.db" for user in ("ana", "bob"))
    damaged.write_bytes(b"no ledger" * 1_000)
    with closing(sqlite3.connect(newer)) as ledger:
        ledger.execute("PRAGMA user_version = 99")
    memory = reopen()
    memory.keep_days(messages=30)
    with pytest.raises(SchemaTooNewError):
        memory.expire()
    assert [memory.user(name).export() for name in ("eve", "zoe")] == [[], []]


# ---- in any order of events


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Memory, Iterator[int]]]:
    memory = Memory(tmp_path_factory.mktemp("expiry") / "m", embeddings="hash")
    yield memory, itertools.count()
    let_go(memory)


DAYS = st.integers(1, 99)
EVENT = st.tuples(
    st.sampled_from(
        ["record", "replaces", "corrects", "ended", "confirms", "supersedes"]
    ),
    st.integers(0, 20),
    st.integers(0, 20),
)


def live(talk: Talk, ages: list[int], events: list[tuple[str, int, int]]) -> None:
    """Messages of these ages, and what they say and do, one after the other."""
    for number, days in enumerate(ages):
        talk.say(f"m{number}", at=ago(days + 0.5))
    talk.record("r0", "m0")
    made = 1
    for what, which, where in events:
        message, old = f"m{where % len(ages)}", f"r{which % made}"
        if what == "record":
            talk.record(f"r{made}", message, f"m{which % len(ages)}")
        elif what == "supersedes":
            talk.record(f"r{made}", message, supersedes=[old])
        elif what in ("replaces", "corrects"):
            talk.replace(old, f"r{made}", message, what)
        else:
            talk.change(old, what, message)
        made += what not in ("ended", "confirms")


def statuses(talk: Talk) -> dict[str, str]:
    return {row.record_id: row.status for row in talk.user.records(limit=1_000)}


@settings(max_examples=10, deadline=None)
@given(
    ages=st.lists(DAYS, min_size=2, max_size=6),
    events=st.lists(EVENT, max_size=10),
    limits=st.lists(DAYS, min_size=1, max_size=2),
    of_records=st.booleans(),
    forgotten=st.lists(st.integers(0, 5), max_size=2),
)
def test_nothing_superseded_holds_again_and_what_is_said_stays(
    shared: tuple[Memory, Iterator[int]],
    ages: list[int],
    events: list[tuple[str, int, int]],
    limits: list[int],
    of_records: bool,
    forgotten: list[int],
) -> None:
    memory, numbers = shared
    talk = Talk(memory, f"u{next(numbers)}")
    live(talk, ages, events)
    frozen: set[str] = set()
    for days in sorted(limits, reverse=True):
        before = {row.record_id: row for row in talk.user.records(limit=1_000)}
        talk.user.keep_days(**{"records" if of_records else "messages": days})
        talk.user.expire()
        after = statuses(talk)
        assert {name: before[name].status for name in after} == after
        young = {f"m{n}" for n, age in enumerate(ages) if age + 0.5 < days}
        assert set(after) == {
            n for n, row in before.items() if young & set(row.message_ids)
        }
        left = set(ids(talk.user.export(), "id"))
        assert left == (left if of_records else young)
        gone = {
            row.record_id
            for row in before.values()
            if not set(row.message_ids) <= young
        }
        frozen |= ended_by(before, gone, young) & set(after)
    for number in forgotten:
        talk.user.forget(message=f"m{number}")
        after = statuses(talk)
        assert not {name for name in frozen if after.get(name) == "active"}
    assert memory._services.read(own_view(talk.user.id), damage, [""]) == []


def ended_by(before: dict[str, Any], gone: set[str], young: set[str]) -> set[str]:
    """What had ended by words that have expired, or by a record that lost a message."""
    return {
        name
        for name, row in before.items()
        if row.status == "superseded"
        and (
            any(
                label.message_id and label.message_id not in young
                for label in row.labels
            )
            or set(row.superseded_by) & gone
        )
    }
