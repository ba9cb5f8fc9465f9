"""The step `schedule`: what has no time is no item of the schedule. No model is called."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from langmem_graph.extraction.commit_records import schedule
from langmem_graph.memory import Memory
from langmem_graph.storage import record_queries
from langmem_graph.storage.reading import EVERYTHING

PAST = {"start": "2020-06-02T15:30"}
ROUTINE = {"start": "2020-06-02", "recurrence": "FREQ=WEEKLY", "granularity": "day"}


def after_step(path: Path, text: str, time: dict[str, Any] | None, facet: str) -> Any:
    """The user, whose one record went through the step."""
    memory = Memory(path / "m", embeddings="hash")
    ana = memory.user("ana")
    ana.add([{"role": "user", "content": "words", "id": "m"}], session_id="s")
    row = {"text": text, "facet": facet, "source_message_ids": ["m"], "record_id": "r"}
    ana.add_records([row | ({"event_time": time} if time else {})])
    with (
        memory._services.room("ana") as room,
        room.database.read_transaction(EVERYTHING) as connection,
    ):
        numbers = record_queries.all_numbers(connection)
    deps: Any = SimpleNamespace(services=memory._services)
    run: Any = SimpleNamespace(user="ana")
    assert asyncio.run(schedule(deps, {"changed": numbers}, run)) == {}
    return ana


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("Dentist.", PAST),  # it is past, and leaves the schedule by its time alone
        ("Market.", ROUTINE),
        ("something", PAST),  # what words mean is for the model to say
        ("TBD", ROUTINE),
    ],
)
def test_what_has_a_time_is_left_as_it_is(
    tmp_path: Path, text: str, time: dict[str, Any]
) -> None:
    ana = after_step(tmp_path, text, time, "schedule")
    (record,) = ana.export_records()
    assert (record["facet"], record["event_time"]) == ("schedule", time)
    assert [entry.op for entry in ana.history("r")] == ["create"]


@pytest.mark.parametrize(
    "time", [None, {"start": "soon"}, {"start": "2020-06-02", "end": "2019"}]
)
def test_what_has_no_usable_time_becomes_an_ordinary_record(
    tmp_path: Path, time: dict[str, Any] | None
) -> None:
    ana = after_step(tmp_path, "Call Eva.", time, "schedule")
    (record,) = ana.get_records(["r"])
    assert (record.facet, record.status, record.event_time) == ("none", "active", time)
    entry = ana.history("r")[-1]
    assert (entry.op, entry.reason) == (
        "unschedule",
        "it has neither a time nor a recurrence",
    )
    ana.undo("r")
    assert ana.get_records(["r"])[0].facet == "schedule"


def test_other_records_need_no_time(tmp_path: Path) -> None:
    ana = after_step(tmp_path, "Likes tea.", None, "persona")
    assert [entry.op for entry in ana.history("r")] == ["create"]
