"""A directory that the released 0.1.0 wrote opens, answers as 0.1.0 did, and goes on.

`memory-0.1.0.json` holds what 0.1.0 itself answered before it closed the directory.
"""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from langmem_graph.errors import StorageError
from langmem_graph.memory import Memory, UserMemory
from langmem_graph.schemas import ORIGIN_OF_ROLE, RecordHit
from tests.conftest import said
from tests.support.models import AnswersBySchema
from tests.support.settings import nested
from tests.support.writing import echo

DATA = Path(__file__).parents[1] / "support" / "data"
ANSWERED: dict[str, Any] = json.loads(
    (DATA / "memory-0.1.0.json").read_text(encoding="utf-8")
)
HELD = {"active", "superseded"}
PORTO, BERLIN = "r-3fce3a202191a6c1", "r-e271121916ae2bef"
REASON = "There is one value at a time, and the new record gives it."
HISTORY = [
    (PORTO, "create", "model", None, None),
    (BERLIN, "create", "model", REASON, None),
    (PORTO, "supersede", "model", REASON, {"status": "active", "valid_to": None}),
]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    with zipfile.ZipFile(DATA / "memory-0.1.0.zip") as written:
        written.extractall(tmp_path)
    return tmp_path


def rows_of(user: UserMemory) -> list[dict[str, Any]]:
    """The records as 0.1.0 exported them, which had no labels."""
    rows = user.export_records(history=True)
    return [
        {name: value for name, value in row.items() if name != "labels"} for row in rows
    ]


def held(hits: list[RecordHit], statuses: set[str]) -> list[str]:
    """What 0.1.0 found: it showed only what holds."""
    return [hit.text for hit in hits if hit.status in statuses]


def answers(user: UserMemory) -> dict[str, Any]:
    """The questions that 0.1.0 was asked."""
    asked = "where does the user live"
    return {
        "messages": user.export(),
        "records": rows_of(user),
        "files": {name: user.read_file(name) for name in user.files()},
        "as_of": held(user.search_records(asked, k=3, as_of="2025-01-15"), HELD),
        "now": held(user.search_records(asked, k=3), {"active"}),
        "hits": [
            hit.message_id for hit in user.search_conversation("bicycle number", 3)
        ],
    }


def changes(user: UserMemory, record_id: str) -> list[tuple[Any, ...]]:
    return [
        (one.record_id, one.op, one.by, one.reason, one.before)
        for one in user.history(record_id)
    ]


@pytest.mark.parametrize("read_only", [False, True])
def test_everything_is_answered_as_it_was(old: Path, read_only: bool) -> None:
    for again in (False, True):  # the second opening finds what the first one left
        with Memory(old, embeddings="hash", read_only=read_only and again) as memory:
            ana = memory.user("ana")
            assert answers(ana) == ANSWERED
            assert changes(ana, PORTO) == HISTORY
            assert [message["id"] for message in memory.user("ben").export()] == ["b1"]
            assert memory.user("ben").search_records("where does the user live") == []


def test_reading_alone_does_not_bring_it_up_to_date(old: Path) -> None:
    before = {file: file.read_bytes() for file in old.rglob("ledger.db")}
    refused = pytest.raises(StorageError, match="Open it once without read_only=True")
    with Memory(old, embeddings="hash", read_only=True) as memory, refused:
        memory.user("ana").export()
    assert {file: file.read_bytes() for file in old.rglob("ledger.db")} == before


def test_the_new_columns_and_tables_are_filled(old: Path) -> None:
    with Memory(old, embeddings="hash") as memory:
        ana = memory.user("ana")
        messages = ana.get_conversation([row["id"] for row in ana.export()])
        assert {(one.role, one.origin) for one in messages} <= set(
            ORIGIN_OF_ROLE.items()
        )
        assert {one.role for one in messages} >= {"user", "assistant"}
        for record in ana.get_records(
            [row["record_id"] for row in ANSWERED["records"]]
        ):
            assert record.supporting_ids == []
            assert ana.changes(record.record_id) == []
        assert ana.calls() == []
        assert ana.doctor(sample=0).ok


@pytest.mark.parametrize("user", ["ana", "ben"])
def test_it_is_healthy_and_can_be_rebuilt(old: Path, user: str) -> None:
    with Memory(old, embeddings="hash") as memory:
        found = memory.user(user).doctor()
        assert (found.ok, found.indexed, found.reachable) == (
            True,
            found.vectors,
            found.sampled,
        )
        assert found.vectors > 0
        memory.user(user).rebuild()
        assert memory.user(user).doctor() == found
        if user == "ana":
            assert answers(memory.user(user)) == ANSWERED


def test_what_took_a_place_is_undone(old: Path) -> None:
    with Memory(old, embeddings="hash") as memory:
        ana = memory.user("ana")
        ana.undo(PORTO)
        (home,) = ana.get_records(PORTO)
        assert (home.status, home.valid_to) == ("active", None)
        assert [
            one.text for one in ana.search_records("where does the user live", k=1)
        ] == ["The user lives in Porto near the river."]
        assert changes(ana, PORTO)[: len(HISTORY)] == HISTORY


def test_a_pending_message_is_read_with_todays_extraction(old: Path) -> None:
    model = AnswersBySchema(Extraction=echo, Reconciliation={"changes": []})
    with Memory(
        old, embeddings="hash", model=model, settings=nested(storage__closing_seconds=5)
    ) as memory:
        ana = memory.user("ana")
        report = ana.flush()
        assert (report.status, report.read, report.pending, report.stored) == (
            "ok",
            1,
            0,
            1,
        )
        new = rows_of(ana)[len(ANSWERED["records"]) :]
        assert [row["source_message_ids"] for row in new] == [["s5-0"]]
        assert rows_of(ana)[: len(ANSWERED["records"])] == ANSWERED["records"]


def test_it_is_written_on_and_opened_again(old: Path) -> None:
    row = {
        "text": "The user plays the oboe.",
        "source_message_ids": ["new"],
        "record_id": "r-oboe",
    }
    with Memory(old, embeddings="hash") as memory:
        ana = memory.user("ana")
        assert ana.add(said("I play the oboe.", id="new"), session_id="s9").stored == [
            "new"
        ]
        assert ana.add_records(row).stored == ["r-oboe"]
        again = said(
            "I live in Porto near the river.", id="s1-0", at="2025-01-10T09:00:00Z"
        )
        assert ana.add(again, session_id="s1").already_known == ["s1-0"]
    with Memory(old, embeddings="hash") as memory:
        ana = memory.user("ana")
        assert ana.export()[:-1] == ANSWERED["messages"]
        assert rows_of(ana)[:-1] == ANSWERED["records"]
        assert ana.search_conversation("oboe", 1)[0].message_id == "new"
        assert ana.search_records("who plays the oboe", k=1)[0].record_id == "r-oboe"
        assert ana.doctor().ok


def test_what_is_forgotten_or_erased_is_gone(old: Path) -> None:
    with Memory(old, embeddings="hash") as memory:
        ana = memory.user("ana")
        report = ana.forget(session="s2")
        assert (report.messages, report.records, report.restored) == (4, 2, 1)
        assert ana.get_records(PORTO)[0].status == "active"
        assert memory.user("ben").erase().messages == 1
    with Memory(old, embeddings="hash") as memory:
        ana = memory.user("ana")
        assert ana.export() == [
            message for message in ANSWERED["messages"] if message["session_id"] != "s2"
        ]
        assert ana.get_records(BERLIN) == []
        assert ana.doctor().ok
        assert memory.user("ben").export() == []
        assert memory.user("ana").erase().messages == len(ANSWERED["messages"]) - 4
    assert not list(old.glob("users/*"))
