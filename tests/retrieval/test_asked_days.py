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
from langmem_graph.retrieval.search_common import RoomSearch, UserSearch
from langmem_graph.storage.reading import EVERYTHING, Reading
from tests.support.settings import nested

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


def told(memory: Any, **about: Any) -> Any:
    """A user who said something on each of forty days."""
    ana = memory.user("ana")
    for days in range(1, 40):
        at = ASKED - timedelta(days=days)
        message = {
            "role": "user",
            "content": f"I walked to {route(days)}.",
            "id": f"m{days}",
        }
        ana.add([{**message, "at": at}], session_id=f"s{days}", **about)
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


DAYS_AGO = timedelta(days=21)
FEW: dict[str, Any] = {"ranking__dense_candidates": 5, "ranking__word_candidates": 5}
DAY = {
    "What happened yesterday?": 1,
    "What did I tell you three weeks ago?": 21,
    "What did I say on 10 November 2026?": 10,
    "What did I say on 10 November?": 10,
}


@pytest.mark.parametrize("where", [None, {"kind": "walk"}])
@pytest.mark.parametrize("held", [True, False])
def test_the_day_is_found_among_more_messages_than_are_candidates(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch, held: bool, where: Any
) -> None:
    if not held:
        monkeypatch.setattr(RoomSearch, "held", lambda *_: None)
    memory = open_memory(None, **FEW)
    ana = told(memory, metadata={"kind": "walk"})
    for question, days in DAY.items():
        found = ana.recall(question, at=ASKED, mode="fast", k=3, where=where)
        assert f"I walked to {route(days)}." in found.context, question
    hidden = ana.recall(next(iter(DAY)), at=ASKED, mode="fast", where={"kind": "x"})
    assert hidden.evidence == []


def test_the_day_is_found_in_a_shared_room(tmp_path: Path) -> None:
    options: Any = {"embeddings": "hash", "settings": nested(**FEW)}
    with Memory(tmp_path, authorize=lambda *_: True, **options) as memory:
        told(memory)
        team = memory.shared("team", as_user="ana")
        met = {"role": "user", "content": "We met in Gusa.", "at": ASKED - DAYS_AGO}
        team.add([met], session_id="t")
        more = [{**met, "content": f"Talk {n}.", "at": ASKED} for n in range(40)]
        team.add(more, session_id="u")
        ana = memory.user("ana", shared=["team"])
        found = ana.recall("What happened three weeks ago?", at=ASKED, mode="fast")
    assert "We met in Gusa." in found.context
    assert f"I walked to {route(21)}." in found.context


def test_a_record_of_the_day_is_found_among_more_than_are_candidates(
    open_memory: Any,
) -> None:
    ana = told(open_memory(None, **FEW))
    rows = [
        {"text": f"Ana walked to {route(days)}.", "source_message_ids": [f"m{days}"]}
        for days in range(1, 40)
    ]
    assert not ana.add_records(rows).rejected
    for question, days in DAY.items():
        hits = ana.search_records(question, k=3, as_of=ASKED)
        shown = {hit.text for hit in hits}
        assert f"Ana walked to {route(days)}." in shown, question


def test_where_no_day_is_named_none_is_looked_up(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = told(open_memory(None, **FEW))
    asked: list[Any] = []
    monkeypatch.setattr(Reading, "said_within", lambda *given: asked.append(given))
    assert ana.recall("Where did I walk?", at=ASKED, mode="fast").evidence
    assert asked == []
