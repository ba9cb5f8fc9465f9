"""Faults: embedder, index, directory, processes. Nothing acknowledged is lost, and it is said."""

import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel

from langmem_graph.errors import (
    ChatModelError,
    ClosedMemoryError,
    EmbedderMismatchError,
    ForkedProcessError,
    ReadOnlyError,
    SchemaTooNewError,
    StorageError,
)
from langmem_graph.graphs.goal_graph import create_goal_graph
from langmem_graph.memory import Memory
from langmem_graph.messages import folder_name
from langmem_graph.settings import Settings, StorageSettings
from langmem_graph.storage import tables
from langmem_graph.testing import HashEmbeddings
from tests.conftest import TroubledEmbeddings, said
from tests.support.files import folder

Reopen = Callable[..., Memory]


# --- the embedder --------------------------------------------------------------------------------


def test_a_failing_embedder_loses_nothing_and_heals_at_the_next_opening(
    reopen: Reopen, troubled: TroubledEmbeddings
) -> None:
    user = reopen(embeddings=troubled).user("u")
    user.add(said("we met the gardener", id="1"), session_id="s")
    troubled.down = True
    report = user.add([said("the trombone is in the attic", id="2")], session_id="s")
    assert (report.stored, report.not_yet_embedded) == (["2"], ["2"])
    assert "the embedder is out" in report.warnings[0]
    assert user.search_conversation("trombone")[0].message_id == "2"
    recall = user.recall("trombone")
    assert (recall.report.status, recall.evidence[0].message_id) == ("degraded", "2")
    assert not user.doctor().ok
    troubled.down = False
    user = reopen(embeddings=troubled).user("u")
    assert user.recall("trombone").report.status == "ok"
    assert user.doctor().ok
    assert user.search_conversation("trombone attic", ranking="dense")[0].message_id == "2"


def test_one_text_the_embedder_refuses_blocks_no_other(
    memory: Memory, reopen: Reopen, troubled: TroubledEmbeddings
) -> None:
    memory.close()
    troubled.poison = "poison"
    user = reopen(embeddings=troubled).user("u")
    talk = [said(f"message {n}" + (" poison" if n == 3 else ""), id=str(n)) for n in range(10)]
    report = user.add(talk, session_id="s")
    assert (len(report.stored), report.not_yet_embedded) == (10, ["3"])
    health = user.doctor()
    assert (health.vectors, health.waiting_to_embed) == (9, 1)
    calls = troubled.calls
    user.add([said(f"more {n}", id=f"more{n}") for n in range(20)], session_id="s")
    assert troubled.calls - calls <= 3  # the new ones at once, the bad one by itself
    troubled.poison = None
    user.add(said("another", id="10"), session_id="s")
    assert user.doctor().vectors == 31


@pytest.mark.parametrize(
    "answer",
    [
        lambda vectors: vectors[:-1],
        lambda vectors: [[float("nan")] * len(v) for v in vectors],
        lambda vectors: [[0.0] * len(v) for v in vectors],
        lambda vectors: [[*v, 1.0] for v in vectors],
        lambda vectors: None,
        lambda vectors: ["words"] * len(vectors),
        lambda vectors: [[] for _ in vectors],
    ],
)
def test_an_unusable_answer_is_no_vector(
    reopen: Reopen, troubled: TroubledEmbeddings, answer: Any
) -> None:
    user = reopen(embeddings=troubled).user("u")
    user.add(said("first", id="1"), session_id="s")
    troubled.answer = answer
    report = user.add([said("second", id="2"), said("third", id="3")], session_id="s")
    assert sorted(report.not_yet_embedded) == ["2", "3"]
    assert report.warnings
    assert user.doctor().vectors == 1
    assert user.search_conversation("second")[0].message_id == "2"


def test_another_embedder_is_refused_until_everything_is_embedded_anew(reopen: Reopen) -> None:
    reopen(embeddings=HashEmbeddings(64)).user("u").add(said("hello", id="1"), session_id="s")
    user = reopen(embeddings=HashEmbeddings(32)).user("u")
    for call in (
        lambda: user.add(said("x"), session_id="s"),
        lambda: user.search_conversation("hello"),
        user.rebuild,
    ):
        with pytest.raises(EmbedderMismatchError, match="hash-64"):
            call()
    assert user.get_conversation("1")[0].text == "hello"
    assert user.rebuild(reembed=True).ok
    assert user.search_conversation("hello")[0].message_id == "1"


# --- the index -----------------------------------------------------------------------------------


def test_a_deleted_index_is_rebuilt_without_embedding(
    reopen: Reopen, troubled: TroubledEmbeddings
) -> None:
    memory = reopen(embeddings=troubled)
    memory.user("u").add([said(f"text {n}", id=str(n)) for n in range(40)], session_id="s")
    room = folder(memory, "u")
    memory.close()
    (index,) = room.glob("chroma-*")
    shutil.rmtree(index)
    calls = troubled.calls
    health = reopen(embeddings=troubled).user("u").doctor(sample=0)
    assert (health.indexed, health.sampled, health.problems) == (40, 40, [])
    assert troubled.calls == calls


def test_a_destroyed_index_degrades_and_rebuild_mends_it(reopen: Reopen) -> None:
    memory = reopen()
    memory.user("u").add([said(f"text number {n}", id=str(n)) for n in range(40)], session_id="s")
    room = folder(memory, "u")
    memory.close()
    for file in room.glob("chroma-*/**/*"):
        if file.is_file():
            file.write_bytes(b"garbage" * 100)
    user = reopen().user("u")
    recall = user.recall("text number 7")
    assert recall.report.status == "degraded"
    assert recall.evidence[0].message_id == "7"
    report = user.add(said("added meanwhile", id="new"), session_id="s")
    assert report.stored == ["new"]
    assert not user.doctor().ok
    health = user.rebuild()
    assert (health.problems, health.indexed) == ([], 41)
    assert user.recall("text number 7").report.status == "ok"


def test_full_batches_reach_chroma_while_adding(tmp_path: Path) -> None:
    limits = Settings(storage=StorageSettings(index_batch=16))
    with Memory(tmp_path / "m", embeddings="hash", settings=limits) as memory:
        user = memory.user("u")
        user.add([said(f"text {n}", id=str(n)) for n in range(50)], session_id="s")
        health = user.doctor(sample=0)
        assert (health.indexed, health.waiting_to_index, health.problems) == (50, 0, [])


def test_more_vectors_than_one_chroma_batch_takes(tmp_path: Path) -> None:
    with Memory(tmp_path / "m", embeddings=HashEmbeddings(8)) as memory:
        user = memory.user("u")
        user.add([said(f"text {n}", id=str(n)) for n in range(6_000)], session_id="s")
        assert user.rebuild().indexed == 6_000


# --- the directory -------------------------------------------------------------------------------


def test_a_directory_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be used"):
        Memory(tmp_path / "file" / "memory", embeddings="hash")


def test_a_directory_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    """As another user, since root may write anywhere."""
    if os.getuid() != 0:
        pytest.skip("needs root to become another user")
    root = tmp_path / "memory"
    root.mkdir(mode=0o755)
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_uid == 0 and parent != Path("/") and "pytest" in str(parent):
            parent.chmod(0o755)
    code = (
        "import os, sys; os.environ['HOME'] = '/nonexistent'\n"
        "from langmem_graph import Memory\n"
        "from langmem_graph.errors import StorageError\n"
        f"Memory({str(tmp_path / 'other')!r}, embeddings='hash').close()\n"  # imports all
        "os.setgid(65534); os.setuid(65534)\n"
        f"try: Memory({str(root)!r}, embeddings='hash')\n"
        "except StorageError as error: print('refused:', error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "refused:" in done.stdout
    assert "may write to" in done.stdout


def test_a_newer_ledger_is_refused_and_left_alone(reopen: Reopen) -> None:
    memory = reopen()
    memory.user("u").add(said("hello"), session_id="s")
    ledger = folder(memory, "u") / "ledger.db"
    memory.close()
    with sqlite3.connect(ledger) as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    with pytest.raises(SchemaTooNewError, match="999"):
        reopen().user("u").search_conversation("hello")
    with pytest.raises(SchemaTooNewError, match="Upgrade"):
        reopen(read_only=True).user("u").search_conversation("hello")


def test_an_older_ledger_is_migrated_with_everything_in_it(
    reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    reopen().user("u").add(said("hello", id="1"), session_id="s")
    step = [lambda connection: connection.exec_driver_sql("ALTER TABLE messages ADD mood TEXT")]
    memory = reopen()
    ledger = folder(memory, "u") / "ledger.db"
    monkeypatch.setattr(tables, "MIGRATIONS", [*tables.MIGRATIONS, *step])
    assert reopen().user("u").search_conversation("hello")[0].message_id == "1"
    connection = sqlite3.connect(ledger)
    assert connection.execute("PRAGMA user_version").fetchone() == (len(tables.MIGRATIONS),)
    assert connection.execute("SELECT mood FROM messages").fetchall() == [(None,)]
    connection.close()


def test_a_migration_that_fails_changes_nothing(
    reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = reopen()
    memory.user("u").add(said("hello", id="1"), session_id="s")
    ledger = folder(memory, "u") / "ledger.db"
    with monkeypatch.context() as patch:
        steps = ["ALTER TABLE messages ADD mood TEXT", "ALTER TABLE nowhere ADD mood TEXT"]
        broken = [lambda c, s=s: c.exec_driver_sql(s) for s in steps]
        patch.setattr(tables, "MIGRATIONS", [*tables.MIGRATIONS, *broken])
        with pytest.raises(StorageError, match="nowhere"):
            reopen().user("u").sessions()
    connection = sqlite3.connect(ledger)
    assert connection.execute("PRAGMA user_version").fetchone() == (len(tables.MIGRATIONS),)
    connection.close()
    assert reopen().user("u").search_conversation("hello")[0].message_id == "1"


# --- processes and threads -----------------------------------------------------------------------

_OPEN = "from langmem_graph import Memory; import sys; Memory(sys.argv[1], embeddings='hash')"


def test_a_second_process_is_refused_and_told_of_the_server(memory: Memory) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _OPEN, str(memory.path)], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "MemoryLockedError" in done.stderr
    assert "chroma run" in done.stderr


def test_a_second_memory_in_this_process_shares_the_first(memory: Memory) -> None:
    with Memory(memory.path, embeddings="hash") as second:
        second.user("u").add(said("hello", id="1"), session_id="s")
        assert memory.user("u").search_conversation("hello")[0].message_id == "1"
    assert memory.user("u").search_conversation("hello")[0].message_id == "1"


def test_another_process_may_look_while_this_one_writes(memory: Memory) -> None:
    memory.user("u").add(said("the trombone is in the attic", id="1"), session_id="s")
    code = (
        "from langmem_graph import Memory; import sys\n"
        "m = Memory(sys.argv[1], embeddings='hash', read_only=True)\n"
        "hits = m.user('u').search_conversation('trombone')\n"
        "print(hits[0].message_id, 'chromadb' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(memory.path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "False"]


def test_read_only_changes_nothing_and_says_so(reopen: Reopen, tmp_path: Path) -> None:
    reopen().user("u").add([said("hello", id="1"), said("bye", id="2")], session_id="s")
    user = reopen(read_only=True).user("u")
    assert user.search_conversation("hello")[0].message_id == "1"
    assert user.recall("hello").report.status == "ok"
    assert user.doctor().ok
    for call in (lambda: user.add(said("x"), session_id="s"), user.erase, user.rebuild):
        with pytest.raises(ReadOnlyError):
            call()
    with pytest.raises(StorageError, match="Nothing is stored"):
        reopen(read_only=True).user("other").search_conversation("x")
    with pytest.raises(StorageError, match="no memory"):
        Memory(tmp_path / "nowhere", embeddings="hash", read_only=True)


def _use_after_fork(memory: Memory, answers: Any) -> None:
    try:
        memory.user("u").search_conversation("hello")
    except ForkedProcessError as error:
        answers.put(str(error))
    memory.close()


def test_use_after_fork_is_refused_and_the_parent_goes_on(memory: Memory) -> None:
    memory.user("u").add(said("hello", id="1"), session_id="s")
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = os.fork()
    if child == 0:
        _use_after_fork(memory, answers)
        os._exit(0)
    os.waitpid(child, 0)
    assert "forked" in answers.get()
    assert memory.user("u").search_conversation("hello")[0].message_id == "1"


def test_a_closed_memory_says_so(memory: Memory) -> None:
    user = memory.user("u")
    memory.close()
    memory.close()
    with pytest.raises(ClosedMemoryError):
        user.search_conversation("x")


def test_a_model_that_cannot_answer_in_a_schema_is_refused(tmp_path: Path) -> None:
    """Else each of its errors would count as an answer, and what it is to read be given up."""
    words = FakeListChatModel(responses=["hello"])
    for make in (
        lambda: Memory(tmp_path / "m", embeddings="hash", model=words),
        lambda: create_goal_graph(lambda query, k: [], model=words),
    ):
        with pytest.raises(ChatModelError, match=r"FakeListChatModel.*with_structured_output"):
            make()
    Memory(tmp_path / "m", embeddings="hash").close()


def test_an_unusable_model_is_refused_and_leaves_nothing_open(tmp_path: Path) -> None:
    with pytest.raises(ChatModelError, match="no-such-provider"):
        Memory(tmp_path, model="no-such-provider:x", embeddings="hash")
    with pytest.raises(ChatModelError, match="a name such as"):
        Memory(tmp_path, model=42, embeddings="hash")
    with Memory(tmp_path, embeddings="hash") as memory:
        assert memory.user("u").sessions() == []


_WRITER = """
import sys
from langmem_graph import Memory, Settings
from langmem_graph.settings import StorageSettings
settings = Settings(storage=StorageSettings(index_batch=8))
memory = Memory(sys.argv[1], embeddings="hash", settings=settings)
user = memory.user("u")
for n in range(100_000):
    report = user.add(
        [
            {"role": "user", "content": f"message number {n} part {p}", "id": f"{n}.{p}"}
            for p in range(3)
        ],
        session_id=f"s{n // 10}",
    )
    print(" ".join(report.stored), flush=True)
"""


@pytest.mark.parametrize(
    "acknowledged", [7, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 23, 60))]
)
def test_sigkill_while_adding_loses_nothing_acknowledged(tmp_path: Path, acknowledged: int) -> None:
    path = tmp_path / "memory"
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    promised = [line.split() for line, _ in zip(writer.stdout, range(acknowledged), strict=False)]
    writer.send_signal(signal.SIGKILL)
    promised += [line.split() for line in writer.stdout if line.endswith("\n")]
    writer.wait()
    writer.stdout.close()
    ids = [message_id for line in promised for message_id in line]
    with Memory(path, embeddings="hash") as memory:
        user = memory.user("u")
        assert [message.id for message in user.get_conversation(ids)] == ids
        health = user.doctor(sample=0)
        assert (health.problems, health.waiting_to_embed, health.waiting_to_index) == ([], 0, 0)
        assert health.indexed == health.vectors == health.messages >= len(ids)
        assert health.messages % 3 == 0  # a call's messages are stored together or not at all
        last = user.get_conversation(ids[-1])[0]
        assert last.id in {hit.message_id for hit in user.search_conversation(last.text, k=10)}


def test_threads_of_two_users_write_and_read_at_once(memory: Memory) -> None:
    problems: list[BaseException] = []

    def work(user_id: str, thread: int) -> None:
        try:
            user = memory.user(user_id)
            for n in range(12):
                user.add(
                    said(f"{user_id} says {n} in {thread}", id=f"{thread}.{n}"), session_id=thread
                )
                hits = user.search_conversation(f"says {n}", k=50)
                assert all(hit.text.startswith(user_id) for hit in hits)
        except BaseException as problem:  # noqa: BLE001  # reported by the assert below
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(u, t)) for u in ("ann", "bob") for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    for user_id in ("ann", "bob"):
        health = memory.user(user_id).doctor()
        assert (health.messages, health.vectors, health.problems) == (48, 48, [])


# --- users ---------------------------------------------------------------------------------------

_IDS = [
    "a@b.c", "acme", "acme-corp", "acme_corp", "acmexcorp", "A.B", "a.b", "../x", "x", "/etc", "..",
    "京都", "京", "%", "_", "*", "u" * 600, "7", "-7", "a\0b", "a b", "naïve", "naive",
]  # fmt: skip


def test_users_never_see_each_other(memory: Memory) -> None:
    for number, user_id in enumerate(_IDS):
        memory.user(user_id).add(said(f"secret {number}", id=f"id{number}"), session_id="s")
    for number, user_id in enumerate(_IDS):
        user = memory.user(user_id)
        for by in ("message", "session"):
            hits = user.search_conversation("secret", k=100, by=by)  # type: ignore[arg-type]
            assert [hit.message_id for hit in hits] == [f"id{number}"]
        assert [row["id"] for row in user.export()] == [f"id{number}"]
        assert user.get_conversation([f"id{n}" for n in range(len(_IDS))])[0].id == f"id{number}"
    inside = {path.name for path in (memory.path / "users").iterdir()}
    assert inside == {folder_name(user_id) for user_id in _IDS}


def test_an_integer_is_the_same_user_as_its_digits(memory: Memory) -> None:
    memory.user(7).add(said("hello", id="1"), session_id="s")
    assert memory.user("7").search_conversation("hello")[0].message_id == "1"


def test_few_rooms_stay_open_and_all_are_found_again(tmp_path: Path) -> None:
    limits = Settings(storage=StorageSettings(max_open_users=3, index_batch=1))
    with Memory(tmp_path / "m", embeddings="hash", settings=limits) as memory:
        for round_ in range(2):
            for n in range(8):
                memory.user(n).add(said(f"hello {n}", id=f"{round_}"), session_id="s")
        assert len(memory._services.directory.open_users()) == 3
        for n in range(8):
            assert len(memory.user(n).search_conversation(f"hello {n}")) == 2


def test_erase_leaves_no_file_and_no_word(memory: Memory) -> None:
    canary = "qzxcanary"
    for user_id in ("gone", "stays"):
        user = memory.user(user_id)
        words = canary if user_id == "gone" else "harmless"
        for n in range(30):
            user.add(
                said(f"{words}{n} text", id=f"{words}-id-{n}", name=f"{words}-name"),
                session_id=f"{words}-s",
            )
        user.search_conversation(words)
    memory.user("gone").rebuild()
    report = memory.user("gone").erase()
    assert (report.messages, report.files > 0, report.bytes > 0) == (30, True, True)
    for file in memory.path.rglob("*"):
        assert canary not in file.name
        assert not file.is_file() or canary.encode() not in file.read_bytes().lower()
    assert not folder(memory, "gone").exists()
    assert memory.user("gone").search_conversation(canary) == []
    assert len(memory.user("stays").export()) == 30
    assert memory.user("never was").erase().messages == 0


def test_an_export_can_be_added_again(memory: Memory) -> None:
    user = memory.user("a")
    user.add(
        [
            said("hi", id="1", name="Al", at="2024-01-01"),
            {
                "role": "assistant",
                "content": "",
                "id": "2",
                "tool_calls": [{"name": "f", "args": {}}],
            },
        ],
        session_id="s",
    )
    copy = memory.user("b")
    for row in user.export():
        copy.add(row, session_id=row["session_id"])
    assert copy.export() == user.export()
