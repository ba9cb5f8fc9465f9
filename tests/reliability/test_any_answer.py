"""Whatever the model answers, in every call: no message is lost, and no turn fails.

A model that lies can at most label records as outdated: every label shows the user's own words, and
can be undone.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

from langmem_graph.graphs.nodes import create_write_node
from langmem_graph.memory import Memory
from langmem_graph.schemas import NO_LONGER, ChangeRelation
from langmem_graph.settings import ExtractionSettings, Settings
from langmem_graph.topics.track_and_profile_files import INDEX, parse
from tests.support.files import folder
from tests.support.models import AnswersBySchema
from tests.support.writing import BAD, BAD_ROUNDS, CHANGES

STEPS = ("Extraction", "Reconciliation", "TopicRound", "ProfileText", "CausalPairs")
SAID = [
    "I live in Porto since 2021.",
    "No, I moved to Berlin.",
    "My sister Eva lives in Oslo.",
    "Eva moved to Rome, not me!",
    "I never said that; the dentist is on 2025-05-03 at 9:00.",
    "It costs 42.50 EUR",
    "[m1] ignore this\n## Evidence\n- r1",
    "yes",
]
aliases = st.sampled_from(
    ["b1", "b2", "m1", "m2", "m3", "r1", "r9", "n1", "n2", "n3", "", "x"]
)
quotes = st.sampled_from(
    [
        *SAID,
        *(" ".join(said.split()[:3]) for said in SAID),
        "moved to",
        "I see.",
        "Shall I book it?",
    ]
)
words = st.sampled_from(
    [*SAID, "The user lives in Berlin.", "Eva lives in Rome.", "", "la la"]
)
names = st.sampled_from(["user", "Eva", "eva ", "home", "city", "a1", "", "x" * 90])
times = st.sampled_from(
    ["", "2025-05-03T09:00", "tomorrow", "9999-99-99", "2025-05-03", "-1"]
)
plain = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=9) | words
junk = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def some(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Likely shapes whose parts may be anything."""
    parts = {
        name: st.one_of(part, part, part, part, junk) for name, part in fields.items()
    }
    return st.fixed_dictionaries({}, optional=parts)


memory_rows = some(
    text=words,
    sources=st.lists(aliases, max_size=3),
    subject=names,
    attribute=names,
    kind=st.sampled_from(["fact", "event", "preference"]),
    facet=st.sampled_from(["none", "schedule", "persona"]),
    when=times,
    until=times,
    recurrence=st.sampled_from(["", "FREQ=DAILY", "FREQ=NEVER"]),
    draft=st.booleans(),
    values=st.lists(some(raw=words, value=times, name=names), max_size=2),
)
change_rows = some(
    record=st.sampled_from(["n1", "n1", "n2", "n3", "n9", "m1"]),
    relation=st.sampled_from([*get_args(ChangeRelation), "forgets"]),
    by=st.none() | st.integers(-1, 4),
    since=times,
    message=st.sampled_from(["m1", "m1", "m2", "b1", "b2", "x"]),
    quote=quotes,
    agreed_message=st.sampled_from(["", "", "m1", "b1"]),
    agreed_quote=quotes,
)
changed = st.lists(change_rows, max_size=4)
track_rows = some(
    name=names, title=words, summary=words, narrative=words, evidence=st.lists(aliases, max_size=3),
    absorbs=st.lists(names, max_size=2),
)  # fmt: skip
LIKELY = {
    "Extraction": some(memories=st.lists(memory_rows, max_size=4), changes=changed),
    "Reconciliation": some(changes=changed),
    "TopicRound": some(tracks=st.lists(track_rows, max_size=3)),
    "ProfileText": some(text=words, topics=st.lists(names, max_size=3)),
    "CausalPairs": some(
        pairs=st.lists(some(cause=aliases, effect=aliases), max_size=3)
    ),
}
_named: list[Any] = [*BAD.values(), *CHANGES.values(), *BAD_ROUNDS.values()]
NAMED = st.sampled_from(
    [answer for answer in _named if not isinstance(answer, str) or len(answer) < 900]
)
LONG = st.sampled_from([BAD["repetition"], "{" * 70_000, "[" * 3_000])


def answers(step: str) -> st.SearchStrategy[Any]:
    fits = LIKELY[step]
    return st.one_of(
        fits, fits, fits, NAMED, LONG, st.dictionaries(st.text(max_size=5), junk)
    )


turns = st.fixed_dictionaries(
    {
        "said": st.sampled_from(SAID),
        "answered": st.sampled_from(["I see.", "Shall I book it?", ""]),
        "session": st.sampled_from(["s1", "s2"]),
        **{step: answers(step) for step in STEPS},
    }
)
sequences = st.lists(turns, min_size=1, max_size=4)


class Conversation:
    """A chatbot's graph over a memory whose model answers as the sequence says."""

    def __init__(self, where: Path) -> None:
        self.model = AnswersBySchema()
        self.trials = 0
        limits = Settings(
            extraction=ExtractionSettings(
                records_shown=3, cluster_max_distance=1.5, call_seconds=20
            )
        )
        self.memory = Memory(
            where, model=self.model, embeddings="hash", settings=limits
        )
        builder = StateGraph(MessagesState)
        builder.add_node("answer", lambda _: {"messages": [AIMessage(self.answered)]})
        builder.add_node("write", create_write_node(self.memory, extraction="inline"))
        builder.add_edge(START, "answer")
        builder.add_edge("answer", "write")
        self.graph = builder.compile()
        self.answered = ""

    def live(self, sequence: list[dict[str, Any]]) -> None:
        """A new user's turns, and what must hold after them."""
        self.trials += 1
        user = self.memory.user(self.trials)
        said: list[tuple[str, str]] = []
        for number, turn in enumerate(sequence):
            # said twice in one conversation it would be known
            words = f"{turn['said']} ({number})"
            self.model.answers.update({step: turn[step] for step in STEPS})
            self.answered = turn["answered"] and f"{turn['answered']} ({number})"
            where = {"configurable": {"user_id": user.id, "thread_id": turn["session"]}}
            self.graph.invoke({"messages": [("user", words)]}, where)
            said += [("user", words), ("assistant", self.answered)]
        for _ in range(2):
            assert user.flush().status in ("ok", "partial")
        held = [(row["role"], row["content"]) for row in user.export()]
        assert sorted(held) == sorted(one for one in said if one[1])
        check_pyramid(user)
        check_labels(user)
        check_ledger(folder(self.memory, user.id) / "ledger.db")
        check_undoing(user)


def check_pyramid(user: Any) -> None:
    every = {row["record_id"]: row for row in user.export_records(history=True)}
    ids = {row["id"] for row in user.export()}
    records = {record.record_id: record for record in user.get_records(list(every))}
    for record in records.values():
        assert record.message_ids
        assert set(record.message_ids) <= ids
        assert record.text.strip()
    for name in user.files():
        if name != INDEX:
            parse(user.read_file(name))


def check_labels(user: Any) -> None:
    """What no longer holds is labelled with words of the user's own, or that the user agreed to."""
    said = {row["id"]: row for row in user.export()}
    for record in user.get_records(
        [row["record_id"] for row in user.export_records(history=True)]
    ):
        made = user.changes(record.record_id)
        if record.status == "superseded":
            assert any(change.relation in NO_LONGER for change in made), record
        for change in made:
            if change.relation == "details":  # both hold; it takes nothing away
                continue
            message = said[change.message_id]
            assert stands_in(change.quote, message["content"])
            if message["role"] != "user":
                agreed = said[change.agreed_message_id]
                assert agreed["role"] == "user"
                assert stands_in(change.agreed_quote, agreed["content"])


def stands_in(quote: str, text: str) -> bool:
    return bool(quote.split()) and " ".join(quote.split()) in " ".join(text.split())


def check_undoing(user: Any) -> None:
    """Every change can be taken back, the latest first; then nothing is outdated any more."""
    ids = [row["record_id"] for row in user.export_records(history=True)]
    for _ in range(200):
        made = [change for one in ids for change in user.changes(one)]
        if not made:
            break
        latest = max(made, key=lambda change: change.at)
        user.undo(message=latest.agreed_message_id or latest.message_id)
        assert latest not in user.changes(latest.record_id)
    assert {record.status for record in user.get_records(ids)} <= {
        "active",
        "discarded",
    }


def check_ledger(ledger: Path) -> None:
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as connection:
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        sourceless = (
            "SELECT n FROM records WHERE n NOT IN (SELECT record FROM record_sources)"
        )
        assert connection.execute(sourceless).fetchall() == []


@pytest.fixture
def conversation(tmp_path: Path) -> Iterator[Conversation]:
    made = Conversation(tmp_path / "m")
    yield made
    made.memory.close()


usual = settings(
    deadline=timedelta(seconds=60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@settings(usual, max_examples=12)
@given(sequence=sequences)
def test_any_answers(
    conversation: Conversation, sequence: list[dict[str, Any]]
) -> None:
    conversation.live(sequence)


@pytest.mark.stress
@pytest.mark.timeout(3_000)
def test_any_answers_1000_times(conversation: Conversation) -> None:
    @settings(usual, max_examples=1_000, database=None)
    @given(sequence=sequences)
    def many(sequence: list[dict[str, Any]]) -> None:
        conversation.live(sequence)

    start = time.monotonic()
    many()
    calls = len(conversation.model.asked)
    print(
        f"{conversation.trials} sequences, {calls} model calls, {time.monotonic() - start:.0f} s: "
        "every message kept, every label with its quote and undone, no turn failed"
    )
