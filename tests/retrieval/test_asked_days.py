"""Questions that name a day in words find what was said on it, without a model."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from langmem_graph.memory import Memory
from langmem_graph.moments import fitting
from langmem_graph.retrieval import ranking
from langmem_graph.retrieval.facts import find_facts
from langmem_graph.retrieval.ranking import QueryDays
from langmem_graph.retrieval.search_common import UserSearch
from langmem_graph.storage.reading import EVERYTHING

ASKED = datetime(2026, 11, 20, 12, tzinfo=UTC)  # a Friday
ON = {
    "What did I do yesterday?": 1,
    "What did I do last Friday?": 7,
    "What did I do three weeks ago?": 21,
    "Was habe ich gestern gemacht?": 1,
    "Was habe ich am 10. November 2026 gemacht?": 10,
    "What did I do on 16/11/2026?": 4,
}


def route(days: int) -> str:
    """A name without figures for the route of a day."""
    return f"{'bdfgklmn'[days // 8]}o{'prstvwxz'[days % 8]}a"


def told(memory: Any) -> Any:
    """A user who said something on each of forty days."""
    ana = memory.user("ana")
    for days in range(1, 40):
        at = ASKED - timedelta(days=days)
        message = {
            "role": "user",
            "content": f"I walked to {route(days)}.",
            "id": f"m{days}",
        }
        ana.add([{**message, "at": at}], session_id=f"s{days}")
    return ana


def test_a_recall_finds_the_day(open_memory: Any) -> None:
    ana = told(open_memory(None))
    for question, days in ON.items():
        found = ana.recall(question, at=ASKED, mode="fast", k=3)
        assert f"I walked to {route(days)}." in found.context, question


def test_the_first_look_up_of_a_reasoned_recall_does_so_too(open_memory: Any) -> None:
    memory = open_memory(None)
    ana = told(memory)
    with memory._services.room(ana.id) as room:
        search = UserSearch.of(memory._services, room, EVERYTHING)
        asked = search.asked_at(ASKED)
        for question, days in ON.items():
            facts = find_facts(asked, question, 3)
            assert f"I walked to {route(days)}." in [fact.text for fact in facts]


def test_last_month_is_reckoned_from_the_time_of_asking(open_memory: Any) -> None:
    ana = told(open_memory(None))
    found = ana.recall("What did I do last month?", at=ASKED, mode="fast", k=3)
    assert {hit.at.month for hit in found.evidence} == {10}


def test_search_reckons_from_now(open_memory: Any) -> None:
    ana = open_memory(None).user("ana")
    now = datetime.now(UTC)
    for days in range(1, 20):
        message = {
            "role": "user",
            "content": f"I walked to {route(days)}.",
            "id": f"m{days}",
        }
        ana.add([{**message, "at": now - timedelta(days=days)}], session_id=f"s{days}")
    hits = ana.search_conversation("What did I do eight days ago?", k=3)
    assert f"I walked to {route(8)}." in [hit.text for hit in hits]


def test_the_day_is_that_of_the_users_clock() -> None:
    late = datetime.fromisoformat("2026-11-20T00:30:00+09:00")  # the 19th in UTC
    said = [datetime(2026, 11, 18, 20, tzinfo=UTC), datetime(2026, 11, 12, tzinfo=UTC)]
    assert QueryDays.of("yesterday", late).fit(said).tolist() == [1.0, 0.25]


def test_without_a_time_of_asking_only_dates_count() -> None:
    said = [ASKED.replace(tzinfo=None)]
    assert QueryDays.of("yesterday").fit(said).tolist() == [0.0]
    assert QueryDays.of("on 20 November").fit(said).tolist() == [1.0]
    assert QueryDays.of("20/11/2026").fit(said).tolist() == [1.0]


def test_a_recall_reads_the_days_of_its_question_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[str]()

    def reading(question: str, asked: Any) -> Any:
        read.append(question)
        return fitting.asked_days(question, asked)

    monkeypatch.setattr(ranking, "asked_days", reading)
    with Memory(tmp_path, embeddings="hash", authorize=lambda *_: True) as memory:
        note = {"text": "Ana walks.", "source_message_ids": ["m1"]}
        told(memory).add_records([note])
        team = memory.shared("team", as_user="ana")
        team.add([("user", "We met.")], session_id="t")
        ana = memory.user("ana", shared=["team"])
        ana.recall("What did I do yesterday?", mode="fast")
    assert read == ["What did I do yesterday?"]
