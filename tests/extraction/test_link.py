"""Causes between records."""

from typing import Any

import pytest
from sqlalchemy import select

from langmem_graph.storage.tables_and_migrations import links
from tests.support.models import AnswersBySchema
from tests.support.writing import echo, turn


def test_causes_are_found_at_the_end_of_a_session_and_follow_time(open_memory: Any) -> None:
    backwards = {"pairs": [{"cause": "r2", "effect": "r1"}, {"cause": "r1", "effect": "r9"}]}
    model = AnswersBySchema(Extraction=echo, CausalPairs=backwards)
    memory = open_memory(model, extraction__cluster_max_distance=1.5)
    ana = memory.user("ana")
    ana.add(turn("The boat hit a rock."), session_id="s", at="2025-01-01")
    ana.add(turn("The boat leaks.", number=2), session_id="s", at="2025-01-02")
    assert ana.flush().causes == 1
    with memory._services.room("ana") as room, room.database.read_transaction() as connection:
        edges = connection.execute(select(links.c.source, links.c.target).filter_by(kind="causal"))
        causal = {(edge.source, edge.target) for edge in edges}
    first, _ = ana.export_records()
    assert "hit a rock" in first["text"]
    assert causal == {(1, 2)}


@pytest.mark.parametrize("start", ["2025-01-03T10:00", "2025-05", "soon", None])
def test_causes_of_what_was_imported_with_a_time_of_any_shape(
    open_memory: Any, start: str | None
) -> None:
    pairs = {"pairs": [{"cause": "r2", "effect": "r1"}]}
    ana = open_memory(
        AnswersBySchema(Extraction=echo, CausalPairs=pairs), extraction__cluster_max_distance=1.5
    ).user("ana")
    ana.add([{"role": "user", "content": "The boat hit a rock.", "id": "m"}], session_id="r")
    ana.flush()
    row = {"text": "The boat hit a rock.", "source_message_ids": ["m"], "facet": "schedule"}
    ana.add_records([{**row, "event_time": {"start": start}}])
    ana.add(turn("The boat leaks."), session_id="s", at="2025-01-02")
    report = ana.flush()
    assert (report.status, report.causes) == ("ok", 1)
