"""Messages and records with metadata, random filters over them, and what each filter means."""

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from langmem_graph.memory import Memory, UserMemory
from langmem_graph.settings import RankingMethod, RankingSettings, Settings
from langmem_graph.storage import record_queries, record_writes, rounds
from langmem_graph.storage.graph_neighbours import CAUSAL, SEMANTIC
from langmem_graph.topics.track_and_profile_files import ProfileFile, render
from tests.conftest import said
from tests.support.homes import changed

WORDS = """garden bees boat harbour trumpet knee allergy peanuts dentist Tuesday running
    apples budget plan train hotel coffee letter window winter""".split()
SETTINGS = Settings(ranking=RankingSettings(dense_candidates=50, word_candidates=50))
"""Few candidates, so that a filter that was applied to them alone would find too few."""
BEGUN = datetime(2025, 1, 1, tzinfo=UTC)
Told = dict[str, Any]
"""What is known of a message: its metadata and the keys that every message has."""


def fill(
    user: UserMemory, count: int, seed: int = 1
) -> tuple[dict[str, Told], dict[str, set[str]]]:
    """Messages with metadata and records over them: all by id, each record with its carriers."""
    chance = random.Random(seed)
    known: dict[str, Told] = {}
    for start in range(0, count, 50):
        session, agent = (
            f"s{start // 50 % 7}",
            chance.choice(["planner", "coder", None]),
        )
        rows = []
        for n in range(start, min(start + 50, count)):
            told = _metadata(chance, n)
            at, role = (
                BEGUN + timedelta(hours=n),
                chance.choice(["user", "user", "assistant"]),
            )
            text = " ".join(chance.choices(WORDS, k=8)) + f" {n}"
            rows.append(said(text, id=f"m{n}", at=at, role=role, metadata=told))
            reserved = {"at": at, "role": role, "origin": role, "session_id": session}
            known[f"m{n}"] = told | reserved | ({"agent_id": agent} if agent else {})
        user.add(rows, session_id=session, agent_id=agent)
    return known, _records(user, list(known), chance)


def _metadata(chance: random.Random, n: int) -> dict[str, Any]:
    told: dict[str, Any] = {
        "thousandth": n % 1_000,
        "hundredth": n % 100,
        "half": n % 2 == 0,
    }
    if chance.random() < 0.8:
        told["project"] = chance.choice(["atlas", "zeus", "hermes"])
    if chance.random() < 0.5:
        told["mixed"] = chance.choice([1, 1.5, True, False, "1", "true", "ä", 0])
    return told


def _records(
    user: UserMemory, ids: list[str], chance: random.Random
) -> dict[str, set[str]]:
    rows, carried = [], {}
    for n in range(len(ids) // 5):
        sources = chance.sample(ids, chance.choice([1, 1, 2, 3]))
        text = " ".join(chance.choices(WORDS, k=6)) + f" record {n}"
        rows.append({"record_id": f"r{n}", "text": text, "source_message_ids": sources})
        carried[f"r{n}"] = set(sources)
    user.add_records(rows)
    return carried


def random_filter(chance: random.Random, depth: int = 0) -> dict[str, Any]:
    if depth < 2 and chance.random() < 0.35:
        parts = [random_filter(chance, depth + 1) for _ in range(chance.randint(1, 3))]
        return {chance.choice(["$and", "$or"]): parts}
    some = chance.choice([1, 1, 2])
    return dict(_compared(chance) for _ in range(some))


def _compared(chance: random.Random) -> tuple[str, Any]:
    key = chance.choice(
        "thousandth hundredth half project mixed at role agent_id session_id nothing".split()
    )
    values: dict[str, Any] = {
        "thousandth": lambda: chance.randrange(1_000),
        "hundredth": lambda: chance.randrange(100),
        "half": lambda: chance.random() < 0.5,
        "project": lambda: chance.choice(["atlas", "zeus", "none"]),
        "at": (BEGUN + timedelta(hours=chance.randrange(2_000))).isoformat,
        "role": lambda: chance.choice(["user", "assistant"]),
        "agent_id": lambda: chance.choice(["planner", "coder"]),
        "session_id": lambda: f"s{chance.randrange(8)}",
    }
    kind = chance.choice([lambda: chance.choice([0, 1, 1.5]), lambda: chance.random() < 0.5,
                          lambda: chance.choice(["1", "true", "ä", "z"])])  # fmt: skip
    value = values.get(key, kind)
    operator = chance.choice("plain $eq $ne $in $nin $gt $gte $lt $lte $exists".split())
    if operator == "plain":
        return key, value()
    if operator == "$exists":
        return key, {operator: chance.random() < 0.5}
    return key, {
        operator: [value(), value()] if operator in ("$in", "$nin") else value()
    }


def means(where: Mapping[str, Any], told: Told) -> bool:
    """Whether a message matches a filter, by the words of the documentation."""
    return all(_holds(key, asked, told) for key, asked in where.items())


def _holds(key: str, asked: Any, told: Told) -> bool:
    if key in ("$and", "$or"):
        return (all if key == "$and" else any)(means(part, told) for part in asked)
    conditions = asked if isinstance(asked, dict) else {"$eq": asked}
    return all(
        _true(operator, key, value, told) for operator, value in conditions.items()
    )


def _true(operator: str, key: str, value: Any, told: Told) -> bool:
    if operator == "$exists":
        return (key in told) is value
    wanted = value if isinstance(value, list) else [value]
    if key == "at":
        wanted = [datetime.fromisoformat(one) for one in wanted]
    if key not in told or _type(told[key]) != _type(wanted[0]):
        return False
    own, first = told[key], wanted[0]
    compared = {
        "$eq": own == first,
        "$ne": own != first,
        "$gt": own > first,
        "$gte": own >= first,
    }
    compared |= {"$lt": own < first, "$lte": own <= first}
    return (compared | {"$in": own in wanted, "$nin": own not in wanted})[operator]


def _type(value: Any) -> type:
    return float if type(value) in (int, float) else type(value)


def check(
    user: UserMemory,
    known: dict[str, Told],
    carried: dict[str, set[str]],
    seed: int,
    count: int,
) -> None:
    """Random filters: what is found is what comparing everything one by one finds."""
    chance = random.Random(seed)
    whole = {
        query: _everything(user, query, len(known))
        for query in ("budget of bees", "knee")
    }
    matched = []
    for number in range(count):
        share = {
            "thousandth": {"thousandth": 7},
            "hundredth": {"hundredth": 7},
            "half": {"half": True},
        }
        fixed = share.get(("thousandth", "hundredth", "half", "")[number % 6 % 4])
        where = fixed or random_filter(chance)
        query, k = chance.choice(list(whole)), chance.choice([1, 5, 20])
        passing = {n for n, told in known.items() if means(where, told)}
        matched.append(len(passing))
        ranking: RankingMethod = chance.choice(["dense", "words"])
        found = user.search_conversation(query, k, ranking=ranking, where=where)
        expected = [n for n in whole[query][ranking] if n in passing][:k]
        assert [hit.message_id for hit in found] == expected, (where, ranking)
        hits = user.search_conversation(query, k, where=where)
        assert {hit.message_id for hit in hits} <= passing, where
        assert len(hits) == min(k, len(passing)), where
        records = {n for n, sources in carried.items() if sources <= passing}
        shown = user.search_records(query, len(carried), where=where)
        assert {hit.record_id for hit in shown} == records, where
    assert min(matched) <= len(known) // 1_000 + 1
    assert max(matched) >= len(known) // 2


def _everything(user: UserMemory, query: str, count: int) -> dict[str, list[str]]:
    return {
        ranking: [
            hit.message_id
            for hit in user.search_conversation(query, count, ranking=ranking)  # type: ignore[arg-type]
        ]
        for ranking in ("dense", "words")
    }


# --- two projects that touch each other everywhere ---

PROJECTS = ("atlas", "zeus")
DAY = "2025-07-01T10:00:00+00:00"


def entangle(
    memory: Memory, user_id: str, each: int = 12
) -> tuple[list[str], list[str]]:
    """Messages and records of two projects, and all that may connect them; the ids of both.

    Each text names its project: in one session in turn, records that supersede those of the other
    project in its words, records of both, supporting sources, edges, appointments, files.
    """
    user, messages = memory.user(user_id), []
    for n in range(each):
        for place, project in enumerate(PROJECTS):
            text = f"the {project} budget of {project} {WORDS[n % len(WORDS)]} {n}"
            own = said(text, id=f"m{n}-{place}", at=BEGUN + timedelta(hours=n))
            user.add(
                own,
                session_id=f"s{n % 3}",
                metadata={"project": project},
                agent_id=project,
            )
            messages.append(f"m{n}-{place}")
    rows = []
    for n in range(each):
        for place, project in enumerate(PROJECTS):
            row = {
                "text": f"{project} has a budget for {project} {n}",
                "record_id": f"r{n}-{place}",
            }
            row |= {
                "source_message_ids": [f"m{n}-{place}"],
                "subject": project,
                "attribute": "budget",
            }
            rows.append(row)
    for place, other in ((0, 1), (1, 0)):
        about = {
            "source_message_ids": [f"m1-{place}", f"m1-{other}"],
            "subject": "user",
        }
        supported = {**about, "supporting_ids": [f"m1-{other}"]}
        text = f"{PROJECTS[place]} was told of twice"
        rows.append({"text": text, "record_id": f"twice-{place}", **supported})
        of_both = f"atlas and zeus share a budget {place}"
        rows.append({"text": of_both, "record_id": f"both-{place}", **about})
        dated = {"facet": "schedule", "kind": "event", "event_time": {"start": DAY}}
        rows.append({"text": f"{PROJECTS[place]} meets", "record_id": f"met-{place}",
                     "source_message_ids": [f"m2-{place}"], **dated})  # fmt: skip
        rows.append({"text": f"{PROJECTS[place]} goes on", "record_id": f"state-{place}",
                     "source_message_ids": [f"m3-{place}"], "facet": "project_state"})  # fmt: skip
    report = user.add_records(rows)
    assert not report.rejected, report
    _change(memory, user_id)
    _connect(memory, user_id, [row["record_id"] for row in rows])
    return messages, [row["record_id"] for row in rows]


def _change(memory: Memory, user_id: str) -> None:
    """Records of each project end in the words of the other one, and for its records."""
    for place, other in ((0, 1), (1, 0)):
        word = PROJECTS[other]
        changed(
            memory,
            "replaces",
            f"r4-{place}",
            f"m5-{other}",
            word,
            by=f"r5-{other}",
            user=user_id,
        )
        changed(memory, "ended", f"r6-{place}", f"m6-{other}", word, user=user_id)
        changed(
            memory,
            "corrects",
            f"r7-{place}",
            f"m7-{other}",
            word,
            by=f"r8-{other}",
            user=user_id,
        )
    changed(memory, "replaces", "both-0", "m9-1", "zeus", by="r9-1", user=user_id)
    changed(memory, "replaces", "both-1", "m9-0", "atlas", by="r9-0", user=user_id)


def _connect(memory: Memory, user_id: str, records: list[str]) -> None:
    profile = ProfileFile(
        text="Works on atlas and zeus.", topics=[], version=1, updated_at=BEGUN
    )
    with (
        memory._services.room(user_id) as room,
        room.database.write_transaction() as connection,
    ):
        numbers = [*record_queries.numbers_of(connection, records).values()]
        for one, other in pairwise(numbers):
            for kind in (CAUSAL, SEMANTIC):
                record_writes.add_link(connection, one, other, kind)
        files = {"profile.md": render(profile), "topics/x.md": "atlas and zeus"}
        rounds.write_files(connection, files)
