"""Users: kept apart, erased without a trace, exported and added again."""

from collections.abc import Callable
from pathlib import Path

import pytest

from langmem_graph.ids_and_times import folder_name
from langmem_graph.memory import Memory
from langmem_graph.settings import Settings, StorageSettings
from tests.conftest import said
from tests.support.files import folder

Reopen = Callable[..., Memory]

_IDS = [
    "a@b.c", "acme", "acme-corp", "acme_corp", "acmexcorp", "A.B", "a.b", "../x", "x", "/etc", "..",
    "京都", "京", "%", "_", "*", "u" * 600, "7", "-7", "a\0b", "a b", "naïve", "naive",
]  # fmt: skip


def test_users_never_see_each_other(memory: Memory) -> None:
    for number, user_id in enumerate(_IDS):
        memory.user(user_id).add(
            said(f"secret {number}", id=f"id{number}"), session_id="s"
        )
    for number, user_id in enumerate(_IDS):
        user = memory.user(user_id)
        for by in ("message", "session"):
            hits = user.search_conversation("secret", k=100, by=by)  # type: ignore[arg-type]
            assert [hit.message_id for hit in hits] == [f"id{number}"]
        assert [row["id"] for row in user.export()] == [f"id{number}"]
        assert (
            user.get_conversation([f"id{n}" for n in range(len(_IDS))])[0].id
            == f"id{number}"
        )
    inside = {path.name for path in (memory.path / "users").iterdir()}
    assert inside == {folder_name(user_id) for user_id in _IDS}


def test_an_integer_is_the_same_user_as_its_digits(memory: Memory) -> None:
    memory.user(7).add(said("hello", id="1"), session_id="s")
    assert memory.user("7").search_conversation("hello")[0].message_id == "1"


@pytest.mark.long
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
