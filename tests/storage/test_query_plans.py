"""No statement of a search reads every row: in a large memory that would take most of its time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from langmem_graph import Memory
from langmem_graph.storage.number_lists import one_of
from langmem_graph.storage.tables import messages
from tests.conftest import said
from tests.support import filtered


@contextmanager
def _plans() -> Iterator[list[str]]:
    """SQLite's plan of each query that is asked inside."""
    seen: list[str] = []

    def explain(
        _connection: Any, cursor: Any, statement: str, values: Any, *_: Any
    ) -> None:
        if statement.lstrip().upper().startswith("SELECT"):
            asked = cursor.connection.cursor()
            asked.execute(f"EXPLAIN QUERY PLAN {statement}", values)
            seen.extend(f"{row[3]}: {statement}" for row in asked.fetchall())

    sa.event.listen(sa.Engine, "before_cursor_execute", explain)
    try:
        yield seen
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", explain)


@pytest.mark.parametrize("where", [None, {"project": "atlas"}])
def test_a_search_reads_no_table_whole(
    tmp_path: Path, where: dict[str, Any] | None
) -> None:
    with Memory(
        tmp_path / "m", embeddings="hash", settings=filtered.SETTINGS
    ) as memory:
        user = memory.user("ana")
        filtered.fill(user, 400)
        user.recall("the budget of bees", where=where)
        with _plans() as plans:
            assert user.search_conversation("the budget of bees", where=where)
            assert user.recall("the budget of bees", where=where).context
    assert any("SEARCH messages" in plan for plan in plans)
    tables = (
        "messages",
        "vectors",
        "record_sources",
        "message_values",
        "history",
        "links",
    )
    scans = [
        plan for plan in plans if plan.startswith(tuple(f"SCAN {t}" for t in tables))
    ]
    assert not [plan for plan in scans if "LIMIT" not in plan]


def test_numbers_are_looked_up_in_the_index(tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'one.db'}")
    messages.metadata.create_all(engine)
    selected = sa.select(messages.c.n).where(messages.c.role == "user")
    with engine.connect() as connection, _plans() as plans:
        for numbers in ([3, 5], selected):
            connection.execute(
                sa.select(messages.c.text).where(one_of(messages.c.n, numbers))
            )
    assert (
        sum(
            plan.startswith("SEARCH messages USING INTEGER PRIMARY KEY")
            for plan in plans
        )
        == 2
    )


def test_what_waits_for_the_index_is_looked_up_by_its_key(tmp_path: Path) -> None:
    with Memory(tmp_path / "m", embeddings="hash") as memory:
        user = memory.user("ana")
        user.add([said(f"text {n}") for n in range(9)], session_id="s")
        with _plans() as plans:
            user.doctor()
    assert any("SEARCH outbox" in plan for plan in plans)
    assert not any(plan.startswith("SCAN outbox:") for plan in plans)
