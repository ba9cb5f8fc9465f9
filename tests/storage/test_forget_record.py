"""Forgetting a record: no message goes on saying what it said."""

import time
from pathlib import Path
from typing import Any

import pytest

from langmem_graph.memory import Memory
from tests.support.traces import hits

CODE = "KX-7093-QL"  # in no time and no id by chance
MESSAGE = f"The key safe has the code {CODE}. Jean is out on Mondays!"
REPEATED = f"So {CODE} it is."


@pytest.fixture
def ana(tmp_path: Path) -> Any:
    with Memory(tmp_path / "m", embeddings="hash") as memory:
        user = memory.user("ana")
        rows = [
            {"role": "user", "content": MESSAGE, "id": "told"},
            {"role": "assistant", "content": REPEATED, "id": "reply"},
        ]
        user.add(rows, session_id="s1", at="2026-05-01")
        yield user


def record(name: str, text: str, **fields: Any) -> dict[str, Any]:
    return {
        "record_id": name,
        "text": text,
        "source_message_ids": ["told"],
        "said_at": "2026-05-01",
        **fields,
    }


SAFE = record(
    "safe", f"The key safe's code is {CODE}.", values=[{"value": CODE, "raw": CODE}]
)
MONDAYS = record("mondays", "Jean is out on Mondays.")


def texts(user: Any) -> dict[str, str]:
    return {row["id"]: row["content"] for row in user.export()}


def test_its_sentence_leaves_a_message_that_says_more(ana: Any, tmp_path: Path) -> None:
    ana.add_records([SAFE, MONDAYS])
    preview = ana.forget_preview(record="safe").report
    report = ana.forget(record="safe")
    assert report.shortened == preview.shortened == ["told"]
    assert report.still_in == preview.still_in == ["reply"]
    told = texts(ana)["told"]
    assert told.startswith("[removed on request on ")
    assert told.endswith(" Jean is out on Mondays!")
    assert [row["record_id"] for row in ana.export_records()] == ["mondays"]
    ana.forget(message="reply")
    assert hits(tmp_path, [CODE]) == []
    assert ana.doctor(sample=0).problems == []


def test_a_message_that_only_carries_it_goes(ana: Any) -> None:
    ana.add_records([SAFE])
    report = ana.forget(record="safe")
    assert (report.messages, report.shortened) == (1, [])
    assert report.still_in == ["reply"]
    assert list(texts(ana)) == ["reply"]


def test_where_the_sentence_cannot_be_told_the_message_is_named(ana: Any) -> None:
    ana.add_records([record("safe", "There is a key safe."), MONDAYS])
    report = ana.forget(record="safe")
    assert (report.messages, report.shortened) == (0, [])
    assert report.still_in == ["told"]
    assert texts(ana)["told"] == MESSAGE


def test_what_ended_leaves_no_message_that_reads_as_current(ana: Any) -> None:
    ana.add_records([SAFE, MONDAYS])
    newer = record("new", "The code is 1212.", supersedes=["safe"])
    ana.add_records([newer])
    ana.forget(record="safe")
    assert CODE not in texts(ana)["told"]


def test_a_record_amid_many_is_forgotten_soon(ana: Any) -> None:
    """What had superseded it supersedes what it had superseded, each with each."""
    many = range(90)
    older = [record(f"o{n}", f"Old statement {n}") for n in many]
    middle = record("x", "The middle one", supersedes=[f"o{n}" for n in many])
    newer = [record(f"n{n}", f"New one {n}", supersedes=["x"]) for n in many]
    assert ana.add_records([*older, middle, *newer]).rejected == []
    start = time.process_time()
    assert ana.forget(record="x").restored == 0
    assert time.process_time() - start < 3
    (first,) = ana.get_records("o0")
    assert sorted(first.superseded_by) == sorted(f"n{n}" for n in many)
    ana.forget(record="n0")
    assert "n0" not in ana.get_records("o0")[0].superseded_by
