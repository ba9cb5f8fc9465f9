"""`langmem-graph move`: from a directory to a database and back, with everything as it was."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from langmem_graph.cli.commands import app
from langmem_graph.errors import StorageError
from langmem_graph.memory import Memory
from langmem_graph.storage import upkeep
from langmem_graph.storage.reading import EVERYTHING
from tests.conftest import said

USERS = ("ana", "bob")
ATLAS = {"project": "atlas"}


def filled(path: Any) -> dict[str, Any]:
    with Memory(path, embeddings="hash") as memory:
        for user in USERS:
            own = memory.user(user)
            talk = [
                said(f"{user} \0 says {n} café 京都", id=f"m{n}") for n in range(12)
            ]
            own.add(talk, session_id="s", metadata={"project": "atlas"})
            home = {"subject": "user", "attribute": "home"}
            first = {
                "text": "Lives in Rome.",
                "source_message_ids": ["m1"],
                "record_id": "r1",
            }
            next_ = {
                "text": "Lives in Turin.",
                "source_message_ids": ["m2"],
                "record_id": "r2",
            }
            own.add_records([first | home, next_ | home | {"supersedes": ["r1"]}])
            own.forget(message="m11")
    return answers(path)


def answers(path: Any) -> dict[str, Any]:
    with Memory(path, embeddings="hash") as memory:
        found = dict[str, Any]()
        for user in USERS:
            own = memory.user(user)
            assert own.doctor(sample=0).problems == []
            found[user] = (
                own.export(),
                own.export_records(history=True),
                own.sessions(),
                [
                    hit.message_id
                    for hit in own.search_conversation("café", where=ATLAS)
                ],
                [
                    (hit.message_id, round(hit.score, 5))
                    for hit in own.search_conversation("京都")
                ],
                [
                    (hit.record_id, round(hit.score, 5))
                    for hit in own.search_records("home Turin")
                ],
            )
    return found


def moved(*words: str) -> str:
    result = CliRunner().invoke(app, ["move", *words])
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def test_there_and_back(tmp_path: Path, database: str) -> None:
    before = filled(tmp_path / "one")
    assert "2 users" in moved(str(tmp_path / "one"), database)
    assert answers(database) == before
    moved(database, str(tmp_path / "two"))
    assert answers(tmp_path / "two") == before


def test_numbers_go_on_where_they_were(tmp_path: Path, database: str) -> None:
    filled(tmp_path / "one")
    moved(str(tmp_path / "one"), database)
    with (
        Memory(database, embeddings="hash") as memory,
        memory._services.room("ana") as room,
        room.database.read_transaction(EVERYTHING) as connection,
    ):
        assert room.database.last_numbers(connection)["messages"] == 12


def test_a_move_that_was_stopped_goes_on(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = filled(tmp_path / "one")
    copy, copied = upkeep._copy, list[str]()

    def stopped(reading: Any, writing: Any, user_id: str) -> int:
        rows = copy(reading, writing, user_id)
        copied.append(user_id)
        if len(copied) == 2:
            raise StorageError("the cable was pulled")
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(upkeep, "_copy", stopped)
        result = CliRunner().invoke(app, ["move", str(tmp_path / "one"), database])
        assert isinstance(result.exception, StorageError)
    moved(str(tmp_path / "one"), database)
    assert copied == list(USERS)
    assert answers(database) == before


def test_rows_that_differ_are_not_kept(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path / "one")
    insert = upkeep._insert

    def forged(writing: Any, table: Any, rows: list[dict[str, Any]]) -> None:
        insert(
            writing,
            table,
            [row | {"text": "x"} if "text" in row else row for row in rows],
        )

    monkeypatch.setattr(upkeep, "_insert", forged)
    result = CliRunner().invoke(app, ["move", str(tmp_path / "one"), database])
    assert "differ after copying" in str(result.exception)
    with Memory(database, embeddings="hash") as memory:
        assert memory.user("ana").export() == []


def test_a_user_who_is_there_already_is_not_overwritten(
    tmp_path: Path, database: str
) -> None:
    filled(tmp_path / "one")
    filled(database)
    result = CliRunner().invoke(app, ["move", str(tmp_path / "one"), database])
    assert "holds a memory of user 'ana' already" in str(result.exception)


def test_an_index_of_its_own_for_a_large_room(database: str) -> None:
    before = filled(database)
    result = CliRunner().invoke(app, ["migrate", database, "--index", "ana"])
    assert result.exit_code == 0, result.output
    assert answers(database) == before
