"""Filters: what passes is found, as if everything were compared, and nothing else is."""

import random
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from langmem_graph.errors import StorageError
from langmem_graph.filters import MOST_VALUES, parsed
from langmem_graph.memory import Memory
from langmem_graph.retrieval import search_common
from langmem_graph.retrieval.schedule_lookup import said_of_days
from langmem_graph.rooms import shared_key
from langmem_graph.storage.full_text import MESSAGE_WORDS
from langmem_graph.storage.reading import EVERYTHING
from langmem_graph.storage.words import TermCounts, query_terms
from langmem_graph.testing import ScriptedChatModel
from langmem_graph.tools import create_memory_tools
from tests.support import filtered


@pytest.mark.parametrize(("messages", "filters"), [
    (1_000, 60), pytest.param(3_000, 1_000, marks=[pytest.mark.stress, pytest.mark.timeout(3_600)])
])  # fmt: skip
def test_it_finds_what_comparing_all_finds(
    tmp_path: Path, messages: int, filters: int
) -> None:
    with Memory(
        tmp_path / "m", embeddings="hash", settings=filtered.SETTINGS
    ) as memory:
        user = memory.user("ana")
        known, carried = filtered.fill(user, messages)
        filtered.check(user, known, carried, seed=2, count=filters)


def words_that_pass(place: object) -> None:
    """Words are looked up among what passes as if the others were left out afterwards."""
    with Memory(place, embeddings="hash") as memory:  # type: ignore[arg-type]
        user = memory.user("ana")
        said = [f"bees {'budget ' * (n % 5)} number {n}" for n in range(60)]
        user.add([{"role": "user", "content": one} for one in said], session_id="s")
        with (
            memory._services.room("ana") as room,
            room.database.read_transaction(EVERYTHING) as connection,
        ):
            terms, chance = query_terms("budget of 12 bees"), np.random.default_rng(5)
            for rows in (0, 100):
                own = MESSAGE_WORDS.counted(connection, terms)
                counted = TermCounts(own.rows + rows, own.having, pooled=rows > 0)
                every = MESSAGE_WORDS.search(connection, terms, counted=counted)
                for share in (0.0, 0.1, 0.5, 1.0):
                    passes = chance.random(61) < share
                    found = MESSAGE_WORDS.search(connection, terms, 7, passes, counted)
                    meant = [(n, score) for n, score in every if passes[n]][:7]
                    assert found == [(n, pytest.approx(score)) for n, score in meant]


def test_words_are_looked_up_among_what_passes(tmp_path: Path) -> None:
    words_that_pass(tmp_path / "m")


PLANS = [
    {
        "intent": "lookup",
        "subgoals": [{"atom": "(b:budget) of it", "query": "budget", "relation": r}],
    }
    for r in ("semantic", "causal", "entity", "temporal")
]
ACT = {"intent": "act", "start": filtered.DAY, "facts": ["f1", "f2"]}
ACT |= {
    "risks": [{"claim": "It may be too much.", "examples": ["The budget is small."]}]
}
QUERIES = (
    "the budget",
    "budget of bees",
    "knee",
    "what's next?",
    "Am I free on 1 July 2025 at 10:00?",
)


def scripted(chance: random.Random) -> ScriptedChatModel:
    def plan(question: str) -> dict[str, Any]:
        return chance.choice([*PLANS, ACT, {"intent": "vague"}])

    risks = {"against": [{"fact": "f1", "why": "it is small"}]}
    return ScriptedChatModel(answers={"GoalPlan": plan, "Consequences": risks})


def shown(
    memory: Memory, query: str, where: dict[str, Any], way: str, ids: list[list[str]]
) -> Any:
    user = memory.user("ana")
    tools = create_memory_tools(memory, user_id="ana", where=where)
    ways: dict[str, Callable[[], Any]] = {
        "fast": lambda: user.recall(query, at="2025-06-30", where=where),
        "reason": lambda: user.recall(query, mode="reason", at="2025-06-30", where=where),
        "messages": lambda: user.search_conversation(query, 30, explain=True, where=where),
        "sessions": lambda: user.search_conversation(query, 3, "session", where=where),
        "records": lambda: user.search_records(query, 50, where=where),
        "then": lambda: user.search_records(query, 50, as_of="2025-01-01T06:00", where=where),
        "by id": lambda: (user.get_conversation(ids[0], where=where),
                          user.get_records(ids[1], where=where)),
        "retriever": lambda: user.as_retriever(where=where).invoke(query),
        "tools": lambda: [tools[n].invoke({"query": query}) for n in (0, 1)],
        "tool of records": lambda: [tools[2].invoke({"record_ids": ids[1][n : n + 20]})
                                    for n in range(0, len(ids[1]), 20)],
        "lists": lambda: [user.sessions(where=where), user.export(where=where),
                          user.export_records(history=True, where=where),
                          user.export_records(as_of="2025-01-01T06:00", where=where),
                          user.records(limit=500, where=where)],
        "pages": lambda: [user.conversation(f"s{n}", where=where) for n in range(3)],
        "inside": lambda: [user.made_of(ids[0], where=where),
                           user.schedule("2025-01-01", "2025-12-31", where=where),
                           user.compare("2025-01-01T03:00", "2025-01-01T09:00", where=where)],
        "of each": lambda: [(user.history(one, where=where), user.changes(one, where=where),
                             user.neighbours(one, where=where)) for one in ids[1]],
        "tool of files": lambda: tools[4].invoke({"name": "profile.md"}),
    }  # fmt: skip
    return ways[way]()


WAYS = ("fast reason messages sessions records then by_id retriever tools tool_of_records "
        "tool_of_files lists pages inside of_each fast reason reason").split()  # fmt: skip


@pytest.mark.parametrize("contexts", [
    30, pytest.param(500, marks=[pytest.mark.stress, pytest.mark.timeout(3_600)])
])  # fmt: skip
def test_nothing_from_outside_is_shown(tmp_path: Path, contexts: int) -> None:
    outside(tmp_path / "m", contexts)


def outside(place: Any, contexts: int) -> None:
    """Recall and read under random filters: nothing from outside is shown, what passes is."""
    chance = random.Random(4)
    model = scripted(chance)
    with Memory(place, model=model, embeddings="hash") as memory:
        ids = filtered.entangle(memory, "ana")
        hidden, full = 0, 0
        for number in range(contexts):
            own, other = chance.sample(filtered.PROJECTS, 2)
            agents = {"$and": [{"agent_id": own}, {"project": {"$ne": other}}]}
            where = chance.choice(
                [{"project": own}, {"project": {"$nin": [other]}}, agents]
            )
            query, way = (
                chance.choice(QUERIES),
                WAYS[number % len(WAYS)].replace("_", " "),
            )
            model.asked.clear()
            answer = shown(memory, query, where, way, list(map(list, ids)))
            text = f"{answer} {model.asked if way == 'reason' else ''}"
            assert other not in text, (
                way,
                query,
                where,
                text[text.index(other) - 300 :][:400],
            )
            full += own in text
            hidden += "no longer true" in text or "labels=[Label" in text
        assert full >= contexts // 2  # what passes is shown
        assert hidden >= contexts // 10  # and what ended is labelled


@pytest.mark.parametrize("few", [2_000, 1])
def test_rooms_too_large_to_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """What passes is compared one by one, or the index is asked deeper until enough of it does."""
    monkeypatch.setattr(search_common, "FEW", few)
    monkeypatch.setattr(search_common, "MOST_COMPARED", few)
    monkeypatch.setattr(search_common.RoomSearch, "held", lambda *_: None)
    with Memory(
        tmp_path / "m", embeddings="hash", settings=filtered.SETTINGS
    ) as memory:
        user = memory.user("ana")
        known, _ = filtered.fill(user, 600)
        best = user.search_conversation("knee", 600, ranking="dense")
        for where in (
            {"half": True},
            {"hundredth": 7},
            {"thousandth": 3},
            {"project": "none"},
        ):
            passing = [
                hit.message_id
                for hit in best
                if filtered.means(where, known[hit.message_id])
            ]
            found = user.search_conversation("knee", 20, ranking="dense", where=where)
            ids = [hit.message_id for hit in found]
            assert len(ids) == min(20, len(passing))
            assert set(ids) <= set(passing)
            assert ids == passing[:20] or few == 1  # an index is approximate


def test_as_many_values_as_a_filter_may_have(memory: Memory) -> None:
    largest_filters(memory)


def largest_filters(memory: Memory) -> None:
    """Filters of the greatest size are used by each method that takes one."""
    ana = memory.user("ana")
    for n in range(3):
        text = {"role": "user", "content": f"tea number {n}", "id": f"m{n}"}
        ana.add(text, session_id="s", metadata={"n": n})
        row = {"record_id": f"r{n}", "text": f"Likes tea {n}."}
        ana.add_records({**row, "source_message_ids": [f"m{n}"]})
    half = MOST_VALUES // 2
    some = [{"n": n} for n in range(1, half + 1)]
    where = {"$or": [{"$and": some}, *some]}
    assert len(ana.recall("tea", where=where).evidence) == 2
    hits = ana.search_conversation("tea", where=where)
    assert sorted(hit.message_id for hit in hits) == ["m1", "m2"]
    records = ana.search_records("tea", where=where)
    assert sorted(hit.record_id for hit in records) == ["r1", "r2"]
    assert ana.schedule("2025-01-01", "2025-02-01", where=where) == []
    but_one = {"$and": [{"n": {"$ne": n}} for n in range(1, MOST_VALUES + 1)]}
    assert [row["id"] for row in ana.export(where=but_one)] == ["m0"]


@pytest.mark.parametrize("damaged", ["ana", shared_key("team")])
def test_a_damaged_ledger_fails_a_search_with_an_error_of_ours(
    damaged: str, tmp_path: Path
) -> None:
    def allowed(*_: object) -> bool:
        return True

    with Memory(tmp_path / "m", embeddings="hash", authorize=allowed) as memory:
        rooms = memory.user("ana"), memory.shared("team", as_user="ana")
        for room, text in zip(rooms, ("I like tea", "Tea is at four"), strict=True):
            room.add([{"role": "user", "content": text}], session_id="s")
        with (
            memory._services.room(damaged) as opened,
            opened.database.write_transaction() as connection,
        ):
            connection.exec_driver_sql("ALTER TABLE messages RENAME TO lost")
        ana = memory.user("ana", shared=["team"])
        if damaged == "ana":
            for search in (ana.recall, ana.search_conversation):
                with pytest.raises(StorageError, match=r"no such table: .*messages"):
                    search("tea")
        else:
            recalled = ana.recall("tea")
            assert [one.text for one in recalled.evidence] == ["I like tea"]
            assert "no such table" in f"{recalled.report.warnings}"
            assert "SELECT" not in f"{recalled.report.warnings}"


def test_what_was_told_of_a_day_passes_the_filter(memory: Memory) -> None:
    ana = memory.user("ana")
    told = {
        "atlas": "On Friday I am at the dentist.",
        "home": "On Friday we paint the hall.",
    }
    for project, text in told.items():
        about = {"role": "user", "content": text, "id": project}
        ana.add(
            about, session_id=project, at="2030-01-01", metadata={"project": project}
        )
    friday = date(2030, 1, 4)
    now = datetime(2030, 1, 2, tzinfo=UTC)
    with memory._services.room("ana") as room:
        for where, expected in (
            (EVERYTHING, {"atlas", "home"}),
            (parsed({"project": "atlas"}), {"atlas"}),
        ):
            facts = said_of_days(room, where, {friday}, now)
            assert {name for fact in facts for name in fact.message_ids} == expected
