"""Forgetting while another connection reads: it is said, and finished as soon as that ends."""

import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from typing import Any

import pytest
from typer.testing import CliRunner

from langmem_graph.cli import commands
from langmem_graph.errors import StorageError
from langmem_graph.memory import Memory
from langmem_graph.storage import full_text, memory_services
from langmem_graph.storage.chroma_index import VectorIndex
from langmem_graph.storage.user_room import LedgerFolder
from langmem_graph.tool_answers import Call, forget
from langmem_graph.tools.memory_tools import create_memory_tools
from tests.conftest import said
from tests.support.files import folder
from tests.support.settings import nested
from tests.support.traces import hits

Reopen = Callable[..., Memory]
WORD = "xylophonics"
IMPATIENT = nested(storage__busy_timeout_seconds=0.1)


@pytest.fixture(autouse=True)
def _no_background(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_services, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(memory_services.Services, "_empty_log", lambda *_: None)


@contextmanager
def reading(memory: Memory, user: str = "u") -> Iterator[None]:
    """Another program has the ledger open in a read transaction, as backups and shells do."""
    with closing(sqlite3.connect(folder(memory, user) / "ledger.db")) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM messages").fetchone()
        yield


def noted(memory: Memory) -> bool:
    query = "SELECT value FROM meta WHERE key = 'traces_left'"
    with closing(sqlite3.connect(folder(memory, "u") / "ledger.db")) as ledger:
        return ledger.execute(query).fetchone() is not None


def busy(_: object) -> None:
    raise StorageError("busy")


def told(memory: Memory) -> Any:
    user = memory.user("u")
    user.add(
        [said(f"my word is {WORD}", id="m1"), said("another", id="m2")], session_id="s"
    )
    user.add_records(
        {"text": f"It is {WORD}.", "source_message_ids": ["m1"], "record_id": "r1"}
    )
    return user


def test_it_is_said_and_finished_by_the_next_call(reopen: Reopen) -> None:
    memory = reopen(settings=IMPATIENT)
    user = told(memory)
    with reading(memory):
        assert user.forget(message="m1").traces_left
        assert user.add(said("a third", id="m3"), session_id="s").stored == ["m3"]
        assert hits(memory.path, [WORD]) == [("ledger.db-wal", WORD)]
    user.add(said("a fourth", id="m4"), session_id="s")
    assert hits(memory.path, [WORD]) == []
    assert not user.forget(message="m2").traces_left
    assert user.doctor(sample=0).problems == []


def test_it_is_finished_in_the_background(
    reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(memory_services, "RETRY_SECONDS", 0.01)
    memory = reopen(settings=IMPATIENT)
    user = told(memory)
    with reading(memory):
        assert user.forget(message="m1").traces_left
    until = time.monotonic() + 60
    while hits(memory.path, [WORD]) or memory._services._with_traces:
        assert time.monotonic() < until
        time.sleep(0.02)


def test_forgetting_leaves_no_former_index(reopen: Reopen) -> None:
    memory = reopen(settings=nested(storage__index_batch=1))
    user = told(memory)
    former = set(folder(memory, "u").glob("chroma-*"))
    user.forget(message="m1")
    [index] = folder(memory, "u").glob("chroma-*")
    assert len(former) == 1
    assert index not in former


def test_the_index_is_not_renewed_while_vectors_are_written(
    reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, renewed, order = threading.Event(), threading.Event(), list[str]()
    upsert, renew_index = VectorIndex.upsert, LedgerFolder.renew_index

    def write(*given: Any) -> None:
        writing.set()
        renewed.wait(0.5)
        order.append("written")
        upsert(*given)

    def renew(room: LedgerFolder) -> None:
        renewed.set()
        order.append("renewed")
        renew_index(room)

    user = told(reopen(settings=nested(storage__index_batch=3)))
    monkeypatch.setattr(VectorIndex, "upsert", write)
    monkeypatch.setattr(LedgerFolder, "renew_index", renew)
    adding = threading.Thread(
        target=user.add, args=[said("a third")], kwargs={"session_id": "s"}
    )
    adding.start()
    assert writing.wait(60)
    user.forget(message="m1")
    adding.join(60)
    assert order[:2] == ["written", "renewed"]


def test_one_thread_waits_for_the_reader(
    reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[tuple[str, bool]] = []

    def wait(_: object, user_id: str) -> None:
        begun.append((user_id, threading.current_thread().daemon))

    monkeypatch.setattr(memory_services.Services, "_empty_log", wait)
    memory = reopen(settings=IMPATIENT)
    user = told(memory)
    with reading(memory):
        user.forget(message="m1")
        for n in "345":
            user.add(said(f"number {n}", id=f"m{n}"), session_id="s")
    assert begun == [("u", True)]  # it does not keep a process that ends


def test_it_is_finished_at_the_next_opening(reopen: Reopen) -> None:
    memory = reopen(settings=IMPATIENT)
    user = told(memory)
    with reading(memory):
        assert user.forget(session="s").traces_left
        memory.close()
        assert hits(memory.path, [WORD]) == [("ledger.db-wal", WORD)]
    assert reopen().user("u").export() == []
    assert hits(memory.path, [WORD]) == []


def test_a_deletion_that_is_not_cleaned_up_yet_stays_noted(reopen: Reopen) -> None:
    """Another call empties the log between a deletion and the cleaning after it."""
    memory = reopen(settings=IMPATIENT)
    user = told(memory)
    with reading(memory):
        assert user.forget(record="r1").traces_left
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(full_text, "optimize_words", busy)
            with pytest.raises(StorageError, match="busy"):
                user.forget(message="m2")
            user.sessions()
            assert noted(memory)
    user.sessions()
    assert not noted(memory)
    assert hits(memory.path, [WORD]) == []


def test_a_cleaning_that_failed_is_done_at_the_next_opening(reopen: Reopen) -> None:
    memory = reopen()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            full_text, "optimize_words", lambda _: exec("raise OSError('busy')")
        )
        with pytest.raises(OSError, match="busy"):
            told(memory).forget(session="s")
    assert hits(memory.path, [WORD])
    assert reopen().user("u").sessions() == []
    assert not noted(memory)
    assert hits(memory.path, [WORD]) == []


def test_tools_and_command_line_say_it(
    reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = reopen(settings=IMPATIENT)
    user = told(memory)
    assert "forget" in {
        tool.name for tool in create_memory_tools(memory, allow_forget=True)
    }
    with reading(memory):
        text, data = forget(Call(user, frozenset()), "r1")
    assert "until another program stops reading" in text
    assert data["forgotten"]["traces_left"]
    monkeypatch.setattr(commands, "opened", lambda *_: nullcontext(memory))
    with reading(memory):
        done = CliRunner().invoke(commands.app, ["forget", "--user=u", "--message=m2"])
    assert "until another program stops reading" in done.output, done.output


PATIENT = nested(storage__busy_timeout_seconds=30.0)
SOON = 10.0  # seconds: far less than a reader is waited for


def interrupt_forget(user: Any) -> None:
    """An interrupt from the keyboard, while it waits for a reader."""
    other = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    other.start()
    with pytest.raises(KeyboardInterrupt):
        user.forget(message="m1")
    other.join()


def forget_beside(user: Any) -> None:
    """It waits for a reader in another thread."""
    threading.Thread(target=user.forget, kwargs={"message": "m1"}).start()
    time.sleep(0.5)


@pytest.mark.parametrize("begin", [interrupt_forget, forget_beside])
def test_nobody_else_waits_for_the_reader(
    reopen: Reopen, begin: Callable[[Any], None]
) -> None:
    memory = reopen(settings=PATIENT)
    user = told(memory)
    with reading(memory):
        began = time.monotonic()
        begin(user)
        user.add(said("a third", id="m3"), session_id="s")
        memory.close()
        ours = [one for one in threading.enumerate() if "(run)" in one.name]
        for thread in ours:
            thread.join(SOON)
        user = reopen(settings=PATIENT).user("u")
        assert user.recall("third").evidence
        assert user.doctor(sample=0).problems == []
        assert time.monotonic() - began < SOON
    user.sessions()
    assert hits(memory.path, [WORD]) == []


def test_a_reader_of_everything_is_waited_for_once(reopen: Reopen) -> None:
    memory = reopen(settings=nested(storage__busy_timeout_seconds=3.0))
    names = [f"u{n}" for n in range(4)]
    for name in names:
        old = said("old", id=f"old {name}", at="2020-01-01")
        memory.user(name).add([old], session_id="s")
    memory.keep_days(messages=30)
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(reading(memory, name))
        began = time.monotonic()
        assert [one.traces_left for one in memory.expire()] == [True] * 4
        assert 3 <= time.monotonic() - began < 6
