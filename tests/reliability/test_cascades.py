"""Whatever is forgotten, no row that was made of it is left, and nothing else is gone."""

import random
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from langmem_graph.memory import Memory
from langmem_graph.reports import CallNote
from langmem_graph.settings import Settings, StorageSettings
from langmem_graph.storage import (
    graph_neighbours,
    record_effects,
    record_queries,
    record_writes,
    rounds,
    tables,
)
from langmem_graph.storage.call_log import write_calls
from langmem_graph.storage.reading import EVERYTHING
from langmem_graph.storage.record_writes import Change, Words, naive
from langmem_graph.topics.track_and_profile_files import (
    ProfileFile,
    TopicFile,
    file_name,
    render,
)
from tests.support.files import folder

SMALL = Settings(storage=StorageSettings(index_batch=6))
AT = "2025-01-01T10:00:00+00:00"


def secret(n: int) -> str:
    """A word of message `n` alone; records made of it repeat it."""
    return f"{'qzxjvkywhb'[n % 10]}secret{n}x"


worlds = st.fixed_dictionaries(
    {
        "sessions": st.lists(st.integers(0, 2), min_size=4, max_size=9),
        "records": st.lists(
            st.tuples(
                st.sets(st.integers(0, 8), min_size=1, max_size=3), st.integers(-3, 9)
            ),
            min_size=1,
            max_size=9,
        ),
        "edges": st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=6),
        "forget": st.lists(
            st.tuples(
                st.sampled_from(["message", "session", "record"]), st.integers(0, 8)
            ),
            min_size=1,
            max_size=3,
        ),
    }
)


class World:
    """A user with messages, records, chains, edges, clusters, a schedule, tracks and a profile."""

    def __init__(self, memory: Memory, user_id: int, plan: dict[str, Any]) -> None:
        self.user: Any = memory.user(user_id)
        self.memory = memory
        self.session_of = dict(enumerate(plan["sessions"]))
        self.sources: dict[int, set[int]] = {}
        self.supporting: dict[int, set[int]] = defaultdict(set)
        self.forgot_records = False
        for n, session in self.session_of.items():
            said = {"role": "user", "content": f"{secret(n)} was said", "id": f"m{n}"}
            self.user.add(said, session_id=f"s{session}", at=AT)
        for n, (cited, older) in enumerate(plan["records"]):
            self._record(n, {one % len(self.session_of) for one in cited}, older)
        self._derive(plan["edges"])

    def _record(self, n: int, cited: set[int], older: int) -> None:
        words = " ".join(secret(one) for one in sorted(cited))
        row: dict[str, Any] = {
            "text": f"Record {n}: {words}",
            "record_id": f"r{n}",
            "scene": words,
        }
        row |= {
            "source_message_ids": [f"m{one}" for one in cited],
            "entities": words.split(),
        }
        row |= {"subject": words, "attribute": words, "project": words}
        if n % 3 == 0:
            row |= {
                "facet": "schedule",
                "event_time": {"start": "2099-01-01", "about": words},
            }
        if 0 <= older < n:
            row["supersedes"] = [f"r{older}"]
        assert self.user.add_records(row).stored == [f"r{n}"]
        self.sources[n] = cited
        if 0 <= older < n:
            self._tell(n, older)

    def _tell(self, n: int, older: int) -> None:
        """A message says why a record took the place of another; a model call read it, too."""
        message = (n + older) % len(self.session_of)
        words = f"because {secret(message)}"
        with self._room() as room, room.database.write_transaction() as connection:
            change = Change.new("model", words)
            told = Words("replaces", message + 1, words)
            begun = record_queries.facts_of(connection, [n + 1])[n + 1].valid_from
            until = record_queries.aware(begun)
            record_effects.supersede(connection, older + 1, n + 1, until, change, told)
            if n % 2:
                record_writes.add_sources(
                    connection, older + 1, [message + 1], supporting=True
                )
                self.supporting[older].add(message)
            call = CallNote(
                purpose="extract", model="m", input_tokens=1, output_tokens=1, tokens_exact=True,
                milliseconds=1, repair=False, problem=words, refused=[words], at=datetime.now(UTC),
            )  # fmt: skip
            write_calls(connection, [call], [message + 1])

    def _derive(self, edges: list[tuple[int, int]]) -> None:
        words = " ".join(map(secret, self.session_of))
        stamp = naive(None) or AT
        track = TopicFile(name="all", title="All", summary=words, narrative=words,
                          evidence=[f"r{n}" for n in self.sources], updated_at=stamp)  # fmt: skip
        profile = ProfileFile(text=words, topics=["all"], updated_at=stamp)
        with self._room() as room, room.database.write_transaction() as connection:
            rounds.write_files(
                connection, {file_name(f): render(f) for f in (track, profile)}
            )
            tables.set_meta(connection, "scene", words)
            held = graph_neighbours.all_clusters(connection)
            for n, _ in self.sources.items():
                graph_neighbours.join(
                    connection, held, 0 if held.numbers else -1, n + 1, _unit()
                )
            for one, other in edges:
                if (
                    one != other
                    and max(one, other) in self.sources
                    and min(one, other) >= 0
                ):
                    graph_neighbours.link_semantically(
                        connection, one + 1, [(other + 1, 0.5)], "test"
                    )

    def _room(self) -> Any:
        return self.memory._services.room(self.user.id)

    def forget(self, kind: str, n: int) -> None:
        """Forget it, and work out what must be gone with it."""
        if kind == "record":
            self.forgot_records |= self.user.forget(record=f"r{n}").records > 0
            said = self._rests_on(n)
            self.sources.pop(n, None)
            self.supporting.pop(n, None)
            others = {m for record in self.sources for m in self._rests_on(record)}
            for message in said - others:
                self.session_of.pop(message, None)
            return
        gone = (
            {n}
            if kind == "message"
            else {m for m, s in self.session_of.items() if s == n}
        )
        self.forgot_records |= self.user.forget(**{kind: f"{kind[0]}{n}"}).records > 0
        for one in gone:
            self.session_of.pop(one, None)
        self.sources = {
            r: cited for r, cited in self.sources.items() if not cited & gone
        }

    def _rests_on(self, record: int) -> set[int]:
        return self.sources.get(record, set()) | self.supporting[record]

    def check(self) -> None:
        exported = {row["id"] for row in self.user.export()}
        assert exported == {f"m{n}" for n in self.session_of}
        rows = self.user.export_records(history=True)
        assert {row["record_id"] for row in rows} == {f"r{n}" for n in self.sources}
        assert self.user.files() == []
        assert self.user.doctor(sample=0).ok
        self._check_tables()
        self._check_chroma()

    def _check_tables(self) -> None:
        alive = {secret(n) for n in self.session_of}
        file = folder(self.memory, self.user.id) / "ledger.db"
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
            held = "\n".join(_cells(db))
            assert not [
                secret(n)
                for n in range(9)
                if secret(n) in held and secret(n) not in alive
            ]
            assert db.execute("PRAGMA foreign_key_check").fetchall() == []
            for table in ("vectors", "outbox"):
                for layer in ("messages", "records"):
                    lost = f"SELECT item FROM {table} WHERE layer = ? AND item NOT IN"
                    assert not db.execute(
                        f"{lost} (SELECT n FROM {layer})", (layer,)
                    ).fetchall()
            # a cluster's sum is made of all its records: made anew
            if self.forgot_records:
                assert db.execute("SELECT * FROM clusters").fetchall() == []
            assert not db.execute("SELECT 1 FROM sessions WHERE n NOT IN"
                                  " (SELECT session FROM messages)").fetchall()  # fmt: skip
            names = "SELECT 1 FROM attributes WHERE n NOT IN (SELECT attribute FROM records)"
            assert not db.execute(names).fetchall()

    def _check_chroma(self) -> None:
        with (
            self._room() as room,
            room.database.read_transaction(EVERYTHING) as connection,
        ):
            wanted: dict[str, set[int]] = defaultdict(set)
            for layer, n in connection.exec_driver_sql("SELECT layer, n FROM vectors"):
                wanted[layer].add(n)
            for layer in tables.LAYERS:
                held = room.index._with_collection(
                    layer, lambda c: c.get(include=[])["ids"]
                )
                assert {int(n) for n in held} <= wanted[layer]


def _unit() -> Any:
    import numpy as np

    vector = np.zeros(256, dtype=np.float32)
    vector[random.randrange(256)] = 1.0
    return vector


def _cells(db: sqlite3.Connection) -> Iterator[str]:
    """Every text in every table, the full-text indexes' own words too."""
    for (table,) in db.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table'"
    ).fetchall():
        for row in db.execute(f"SELECT * FROM {table}"):
            for cell in row:
                yield (
                    cell.decode("utf-8", "ignore")
                    if isinstance(cell, bytes)
                    else str(cell)
                )


@pytest.fixture
def memory_of_many(tmp_path: Path) -> Iterator[tuple[Memory, Iterator[int]]]:
    with Memory(tmp_path / "m", embeddings="hash", settings=SMALL) as memory:
        yield memory, iter(range(1, 10**6))


usual = settings(
    deadline=timedelta(seconds=60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def live(memory: Memory, number: int, plan: dict[str, Any]) -> None:
    world = World(memory, number, plan)
    for kind, n in plan["forget"]:
        done = n % 3 if kind == "session" else n
        world.forget(kind, done)
    # at least one thing goes
    world.forget("session", min(world.session_of.values(), default=0))
    world.check()


@pytest.mark.long
@settings(usual, max_examples=8)
@given(plan=worlds)
def test_nothing_that_was_made_of_it_is_left(
    memory_of_many: Any, plan: dict[str, Any]
) -> None:
    memory, numbers = memory_of_many
    live(memory, next(numbers), plan)


@pytest.mark.stress
@pytest.mark.timeout(3_000)
def test_nothing_is_left_300_times(memory_of_many: Any) -> None:
    memory, numbers = memory_of_many
    done = []

    @settings(usual, max_examples=300, database=None)
    @given(plan=worlds)
    def many(plan: dict[str, Any]) -> None:
        done.append(next(numbers))
        live(memory, done[-1], plan)

    many()
    print(f"{len(done)} memories: 0 derived rows left after forgetting")
