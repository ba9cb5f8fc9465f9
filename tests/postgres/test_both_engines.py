"""The same random operations on SQLite and on PostgreSQL: every answer is the same."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from langmem_graph.errors import LangMemGraphError
from langmem_graph.memory import Memory, UserMemory
from langmem_graph.settings import RankingSettings, Settings, StorageSettings
from tests.conftest import said
from tests.retrieval.test_asked_days import ASKED, DAY, FEW, route, told
from tests.support.settings import nested
from tests.support.shown_code import blocks, run_page

WORDS = """garden bees boat harbour trumpet café Überzug 京都 京都の 犬 сады लिखना Anna Bert knee
    allergy peanuts dentist Tuesday running runs ran apples apple 12 4711 o'clock""".split()
SETTINGS = Settings(
    ranking=RankingSettings(dense_candidates=10_000, word_candidates=10_000),
    storage=StorageSettings(index_batch=16, embed_batch=16),
)
"""Both compare every vector: what an approximate index finds would differ."""
STAMPS = {
    "created_at",
    "updated_at",
    "milliseconds",
    "oldest_due",
    "change",
    "made_at",
    "id_of_change",
}


class Pair:
    """One memory on each engine, asked the same."""

    def __init__(self, sqlite: Memory, postgres: Memory, seed: int) -> None:
        self.engines = (sqlite, postgres)
        self.chance = random.Random(seed)
        self.count = 0
        self.messages: list[str] = []
        self.records: list[str] = []

    def step(self) -> None:
        work = self.chance.choices(
            [self.add, self.record, self.forget, self.ask], [5, 3, 1, 4]
        )[0]
        work(self.chance.choice(["ana", "bob"]))

    def both(self, user: str, work: Callable[[UserMemory], Any]) -> Any:
        answers = [plain(tried(work, memory.user(user))) for memory in self.engines]
        assert same(*answers), f"{answers[0]}\n{answers[1]}"
        return answers[0]

    def text(self) -> str:
        return " ".join(self.chance.choices(WORDS, k=self.chance.randint(1, 9)))

    def add(self, user: str) -> None:
        made = []
        for _ in range(self.chance.randint(1, 4)):
            self.count += 1
            role = self.chance.choice(["user", "assistant", "user", "tool", "system"])
            at = f"2025-{self.chance.randint(1, 12):02}-{self.chance.randint(1, 28):02}T10:00"
            made.append(said(self.text(), id=f"m{self.count}", at=at, role=role))
        session = f"s{self.chance.randint(1, 4)}"
        self.messages += [message["id"] for message in made]
        about = {"project": self.chance.choice(["atlas", "Überzug", 7, 7.5, True])}
        self.both(user, lambda u: u.add(made, session_id=session, metadata=about))

    def record(self, user: str) -> None:
        if not self.messages:
            return
        self.count += 1
        row = {
            "text": self.text(),
            "record_id": f"r{self.count}",
            "source_message_ids": self.chance.choices(self.messages, k=2),
            "subject": "user",
            "attribute": self.chance.choice(["home", "job", "pet"]),
            "said_at": "2025-06-01",
        }
        if self.records and self.chance.random() < 0.4:
            row["supersedes"] = [self.chance.choice(self.records)]
        self.records.append(f"r{self.count}")
        self.both(user, lambda u: u.add_records(row))

    def forget(self, user: str) -> None:
        kinds = {
            "message": self.messages,
            "record": self.records,
            "session": ["s1", "s2"],
        }
        kind = self.chance.choice(list(kinds))
        if kinds[kind]:
            named = {kind: self.chance.choice(kinds[kind])}
            foreseen = self.both(user, lambda u: u.forget_preview(**named))
            done = self.both(user, lambda u: u.forget(**named))
            assert foreseen["report"] == done
        if self.chance.random() < 0.1:
            self.both(user, lambda u: u.erase().messages)

    def ask(self, user: str) -> None:
        query, k = self.text(), self.chance.choice([1, 3, 8, 40])
        where: dict[str, Any] = self.chance.choice(
            [{"project": "atlas"}, {"project": {"$gt": 7}}, {"project": {"$ne": "atlas"}},
             {"at": {"$lt": "2025-06-01"}, "role": "user"}, {"project": {"$exists": False}}]
        )  # fmt: skip
        asked: list[Callable[[UserMemory], Any]] = [
            lambda u: u.search_conversation(query, k, explain=True),
            lambda u: u.search_conversation(query, k, by="session"),
            lambda u: u.search_conversation(query, k, ranking="words"),
            lambda u: u.search_records(query, k, explain=True),
            lambda u: u.search_records(query, k, as_of="2025-09-01"),
            lambda u: u.recall(query).context,
            lambda u: u.search_conversation(query, k, where=where),
            lambda u: u.search_records(query, k, where=where),
            lambda u: u.recall(query, where=where).context,
            lambda u: u.export(),
            lambda u: u.export_records(history=True),
            lambda u: u.sessions(),
            lambda u: u.doctor(sample=0).problems,
            lambda u: u.conversation("s1", start=1, limit=5),
            lambda u: u.records(limit=20),
            lambda u: (
                u.sessions(where=where),
                u.export(where=where),
                u.records(where=where),
            ),
            lambda u: u.conversation("s1", where=where),
            lambda u: (
                u.history(f"r{self.count}", where=where),
                u.made_of(self.messages[-9:], where=where),
            ),
            lambda u: u.neighbours(f"r{self.count}", where=where),
            lambda u: u.made_of(self.messages[-9:]),
            lambda u: u.neighbours(f"r{self.count}"),
            lambda u: u.compare("2025-03-01", "2025-09-01"),
        ]
        self.both(user, self.chance.choice(asked))


def tried(work: Callable[[UserMemory], Any], user: UserMemory) -> Any:
    try:
        return work(user)
    except LangMemGraphError as error:
        return type(error).__name__


def plain(value: Any) -> Any:
    """The answer as plain data, without the moments at which each engine was asked."""
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if hasattr(value, "__dataclass_fields__"):
        value = vars(value)
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items() if name not in STAMPS}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= 1e-5
    return bool(one == other)


def run(tmp_path: Path, database: str, seed: int, steps: int) -> None:
    with (
        Memory(tmp_path / "m", embeddings="hash", settings=SETTINGS) as sqlite,
        Memory(database, embeddings="hash", settings=SETTINGS) as postgres,
    ):
        pair = Pair(sqlite, postgres, seed)
        for _ in range(steps):
            pair.step()
        for user in ("ana", "bob"):
            pair.both(user, lambda u: u.export())
            pair.both(user, lambda u: u.export_records(history=True))
            pair.both(user, lambda u: u.doctor(sample=0).problems)
            pair.both(user, lambda u: u.overview())
            pair.both(user, lambda u: u.compare("2025-01-01", "2100-01-01"))


@pytest.mark.parametrize(
    ("seed", "steps"),
    [(1, 60), *(pytest.param(seed, 120, marks=pytest.mark.stress) for seed in (1, 2))],
)
def test_both_engines_answer_alike(
    tmp_path: Path, database: str, seed: int, steps: int
) -> None:
    run(tmp_path, database, seed, steps)


@pytest.mark.stress
@pytest.mark.timeout(1_800)
def test_both_engines_answer_alike_for_long(tmp_path: Path, database: str) -> None:
    run(tmp_path, database, 7, 2_000)


def test_a_day_is_found_among_more_messages_than_are_candidates(database: str) -> None:
    with Memory(database, embeddings="hash", settings=nested(**FEW)) as memory:
        ana = told(memory)
        for question, days in DAY.items():
            found = ana.recall(question, at=ASKED, mode="fast", k=3)
            assert f"I walked to {route(days)}." in found.context, question


def test_odd_messages_are_stored_alike(tmp_path: Path, database: str) -> None:
    chance = random.Random(3)
    # 1,998 bytes
    longest = "".join(chr(chance.randrange(0x4E00, 0x9FFF)) for _ in range(666))
    arguments = {"a": float("nan"), "b": [float("-inf")], "c": "\0"}
    calls = [{"name": "f", "args": arguments, "id": "1"}]
    odd = [
        said("hi", id=longest, name=longest),
        said("", role="assistant", tool_calls=calls),
    ]
    with (
        Memory(tmp_path / "m", embeddings="hash") as sqlite,
        Memory(database, embeddings="hash") as postgres,
    ):
        pair = Pair(sqlite, postgres, 1)
        assert (
            pair.both(
                "ana",
                lambda u: u.add(odd, session_id=longest, at="2026-01-01").rejected,
            )
            == []
        )
        again = pair.both(
            "ana", lambda u: u.add(odd, session_id=longest, at="2026-01-01")
        )
        assert len(again["already_known"]) == 2
        exported = pair.both("ana", lambda u: u.export())
        assert exported[1]["tool_calls"][0]["args"] == {
            "a": "NaN",
            "b": ["-Infinity"],
            "c": "\0",
        }


def test_what_was_deleted_is_not_sent_again_on_either(
    tmp_path: Path, database: str
) -> None:
    talk = [said(f"boat {n}", id=f"m{n}", at=f"20{20 + n}-01-01") for n in range(4)]
    with (
        Memory(tmp_path / "m", embeddings="hash") as sqlite,
        Memory(database, embeddings="hash") as postgres,
    ):
        pair = Pair(sqlite, postgres, 1)
        pair.both("ana", lambda u: u.add(talk, session_id="s"))
        pair.both("ana", lambda u: u.forget(message="m3"))
        pair.both("ana", lambda u: u.keep_days(messages=365 * 5))
        pair.both("ana", lambda u: u.expire())
        again = pair.both(
            "ana", lambda u: u.add(talk, session_id="s", whole_conversation=True)
        )
        assert len(again["forgotten"]) >= 2
        assert again["stored"] == []
        pair.both("ana", lambda u: u.doctor(sample=0).problems)
        pair.both("ana", lambda u: u.erase().messages)
        assert pair.both("ana", lambda u: u.add(talk, session_id="s").stored)[0] == "m0"


def test_the_page_runs_as_printed(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POSTGRES_URI", database)
    page = Path(__file__).parents[2] / "docs/hosts.md"
    printed = [block.output or "" for block in blocks(page) if block.kind == "python"]
    assert run_page(page, tmp_path) == printed
