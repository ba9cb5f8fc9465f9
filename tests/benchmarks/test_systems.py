"""All systems, the vector cache, and a run on a tiny conversation with the test embedder."""

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings
from rich.progress import Progress

from benchmarks import run as running
from benchmarks.data.items import Conversation, DataSet, Question, Session
from benchmarks.job import Job, commit
from benchmarks.log import Log
from benchmarks.report.write import write_report
from benchmarks.systems import baselines
from benchmarks.systems.catalogue import (
    ABLATIONS,
    RETRIEVAL,
    Spec,
    Workshop,
    ablations,
    chosen,
    sweep,
)
from benchmarks.vectors import cached
from langmem_graph.errors import InvalidInputError
from langmem_graph.testing import HashEmbeddings


def message(number, text):
    return {"id": f"m{number}", "role": "user", "name": "Mira", "content": text}


SESSIONS = [
    Session(
        "s1", [message(1, "The shed needs a red roof."), message(2, "Beans grow well.")]
    ),
    Session("s2", [message(3, "My flight to Lisbon is on Friday."), message(4, "")]),
]
ASKED = Question("q1", "flight to Lisbon", frozenset({"m3"}), "travel")
EARLY = Question("q0", "flight to Lisbon", frozenset({"s1"}), "any", before=1)


def job(tmp_path, questions=(ASKED,), by="message", specs=None):
    talk = Conversation("tiny", SESSIONS, list(questions))
    file = tmp_path / "data.json"
    file.write_text("{}")
    data = DataSet("locomo", "Tiny", by, (1, 5, 10), "judged", [talk], [file])
    specs = specs or chosen([], answering=False, has_model=False)
    return Job(data, specs, HashEmbeddings(), tmp_path / "out", by)


@pytest.mark.parametrize(("by", "expected"), [("message", "m3"), ("session", "s2")])
def test_every_system_finds_the_words(tmp_path, by, expected):
    shop = Workshop(tmp_path, HashEmbeddings())
    found = {}
    for spec in chosen([], answering=False, has_model=False):
        system = spec.make(shop)
        for session in SESSIONS:
            assert system.add(session).calls == 0
        found[system.name] = system.search("flight to Lisbon", 2, by)
        assert (system.size() > 0) == (system.name not in ("bm25", "naive-rag"))
    for memory in shop._shared.values():
        memory.close()
    assert set(found) == set(RETRIEVAL)
    assert {passages[0].id for passages in found.values()} == {expected}
    assert all(
        len({p.id for p in passages}) == len(passages) for passages in found.values()
    )


def test_bm25_ranks_the_rarer_word_higher():
    system = baselines.BM25()
    texts = ["the red shed", "the red barn", "the red barn", "a shed door"]
    system.add(Session("s", [message(n, text) for n, text in enumerate(texts)]))
    assert system.search("red shed", 4, "message")[0].id == "m0"
    assert system.search("?!", 4, "message") == []
    assert system.search('a "quoted OR" word', 4, "message")[0].id == "m3"
    system.close()


def test_only_earlier_sessions_are_found(tmp_path):
    log = running.run(job(tmp_path, [EARLY], "session"))
    rows = log.rows("asked")
    assert len(rows) == len(RETRIEVAL)
    assert all(set(row["found"]) <= {"s1"} for row in rows)
    assert not any(row["failures"] for row in rows)


class Counting(baselines.BM25):
    """Counts what it is asked, and fails when told."""

    asked = 0
    fails = False
    stops = False

    def search(self, query, k, by):
        type(self).asked += 1
        if self.stops:
            raise KeyboardInterrupt
        if self.fails:
            raise ValueError("out of order")
        return super().search(query, k, by)


@pytest.fixture
def counting():
    Counting.asked, Counting.fails, Counting.stops = 0, False, False
    yield [Spec("bm25", lambda shop: Counting())]
    Counting.fails = Counting.stops = False


def test_a_stopped_run_is_continued(tmp_path, counting):
    questions = [EARLY, ASKED]
    Counting.stops = True
    with pytest.raises(KeyboardInterrupt):
        running.run(job(tmp_path, questions, specs=counting))
    Counting.stops = False
    first = running.run(job(tmp_path, questions[:1], specs=counting))
    assert Counting.asked == 2
    with first.file.open("a") as lines:
        lines.write('{"row": "asked", "sys')  # a crash in the middle of a line
    again = running.run(job(tmp_path, questions, specs=counting))
    assert Counting.asked == 3  # only what was missing
    assert [row["question"] for row in again.rows("asked")] == ["q0", "q1"]
    assert len(Log(again.file).rows("asked")) == 2
    running.run(job(tmp_path, questions, specs=counting), fresh=True)
    assert Counting.asked == 5


def test_a_continued_memory_does_not_know_the_future(tmp_path):
    """A system added to a stopped run must not find what was stored after its question."""
    late = Question("q2", "roof", frozenset({"s1"}))
    first = job(
        tmp_path, [late], "session", chosen(["ours"], answering=False, has_model=False)
    )
    stopping = Spec("bm25", lambda shop: Counting())
    Counting.stops = True
    with pytest.raises(KeyboardInterrupt):
        running.run(job(tmp_path, [late], "session", [*first.specs, stopping]))
    Counting.stops = False
    assert (first.folder / "memories").exists()
    log = running.run(job(tmp_path, [EARLY, late], "session", first.specs))
    (early,) = [row for row in log.rows("asked") if row["question"] == "q0"]
    assert early["found"] == ["s1"]
    assert not (first.folder / "memories").exists()


def test_a_session_that_was_begun_and_not_logged_is_known_too(tmp_path, monkeypatch):
    """The process may die when a session is in memory, and its line not yet in the log."""
    late = Question("q2", "roof", frozenset({"s1"}))
    specs = chosen(["ours"], answering=False, has_model=False)
    whole = Log.add

    def dies(self, row):
        if row["row"] == "added":
            raise KeyboardInterrupt
        whole(self, row)

    monkeypatch.setattr(Log, "add", dies)
    with pytest.raises(KeyboardInterrupt):
        running.run(job(tmp_path, [late], "session", specs))
    monkeypatch.undo()
    first = Question("q0", "shed", frozenset({"s1"}), before=0)
    log = running.run(job(tmp_path, [first, late], "session", specs))
    (early,) = [row for row in log.rows("asked") if row["question"] == "q0"]
    assert early["found"] == []


def test_two_sessions_of_one_name_are_both_remembered(tmp_path):
    shop = Workshop(tmp_path, HashEmbeddings())
    parts = [
        Session("s1", [message(1, "A red shed.")]),
        Session("s1", [message(2, "A boat.")]),
    ]
    for spec in chosen(["ours", "bm25"], answering=False, has_model=False):
        system = spec.make(shop)
        for part in parts:
            system.add(part)
        assert [one.id for one in system.search("boat", 1, "message")] == ["m2"]
        system.close()
    talk = Conversation("tiny", parts, [Question("q", "boat", frozenset({"m2"}))])
    made = job(tmp_path)
    made = replace(made, data=replace(made.data, conversations=[talk]))
    assert {row["turns"] for row in running.run(made).rows("size")} == {2}
    assert len(Log(made.folder / "items.jsonl").rows("added")) == 2 * len(RETRIEVAL)


def test_conversations_with_names_alike_have_memories_of_their_own(tmp_path):
    made = job(tmp_path)
    (talk,) = made.data.conversations
    names = ["a.b", "a-b", "x" * 80 + "1", "x" * 80 + "2"]
    log = Log(tmp_path / "items.jsonl")
    with Progress() as bar:
        runs = [
            running._Run(made, replace(talk, name=name), log, bar, bar.add_task(""))
            for name in names
        ]
    assert len({one.folder for one in runs}) == 4


def test_no_system_shows_a_date_that_nobody_gave(tmp_path):
    """Memory dates what has no date to the moment of storing, which would also order the quotes."""
    shop = Workshop(tmp_path, HashEmbeddings())
    said = [
        message(1, "A red shed."),
        message(2, "A shed.") | {"at": "2024-03-01T00:00:00+00:00"},
    ]
    for spec in chosen(
        ["ours", "ours+records", "bm25"], answering=False, has_model=False
    ):
        system = spec.make(shop)
        system.add(Session("s", said))
        dates = {one.id: one.at[:10] for one in system.search("shed", 2, "message")}
        assert dates == {"m1": "", "m2": "2024-03-01"}
        system.close()


def test_what_memory_refuses_is_said(tmp_path):
    bad = [
        message(1, "A shed."),
        message(2, "A boat.") | {"at": "no date"},
        message(3, " "),
    ]
    talk = Conversation(
        "tiny", [Session("s", bad)], [Question("q", "boat", frozenset({"m2"}))]
    )
    made = job(tmp_path, specs=chosen(["ours"], answering=False, has_model=False))
    made = replace(made, data=replace(made.data, conversations=[talk]))
    log = running.run(made)
    (row,) = log.rows("added")
    assert len(row["problems"]) == 1  # an empty message is no loss
    assert "- ours: memory: " in write_report(made, log, 1.0)


def test_a_failing_system_is_counted_and_asked_again_when_wanted(tmp_path, counting):
    Counting.fails = True
    log = running.run(job(tmp_path, specs=counting))
    (row,) = log.rows("asked")
    assert row["found"] == []
    assert row["failures"] == ["system: ValueError: out of order"]
    text = write_report(job(tmp_path, specs=counting), log, 1.0)
    assert "| bm25 | 0.000 |" in text
    assert "- bm25: system: ValueError: out of order" in text
    Counting.fails = False
    (row,) = running.run(job(tmp_path, specs=counting), retry=True).rows("asked")
    assert row["found"] == ["m3"]


def test_report_names_every_system_and_what_ran(tmp_path):
    made = job(tmp_path)
    text = write_report(made, running.run(made), 1.0)
    assert "## Tiny: 1 questions" in text
    assert "| ours | 1.000 | 1.000 | 1.000 | 1.000–1.000 | 1.000 |" in text
    assert all(f"| {name} |" in text for name in RETRIEVAL)
    assert "embeddings HashEmbeddings:hash" in text
    assert {file.name for file in made.folder.iterdir()} == {
        "items.jsonl",
        "config.json",
        "report.md",
        "recall.png",
        "scores.png",
    }


def test_other_data_is_another_run(tmp_path):
    first = job(tmp_path).folder
    assert job(tmp_path).folder == first
    again = job(tmp_path)
    again.data.files[0].write_text("[]")
    assert again.folder != first


def test_the_commit_is_of_this_package_and_tells_changes_apart(tmp_path):
    def git(*words):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(
            ["git", "-C", str(tmp_path), *who, *words], check=True, capture_output=True
        )

    git("init", "-q")
    inside = tmp_path / "site" / "package"
    inside.mkdir(parents=True)
    (tmp_path / "own.py").write_text("1")
    git("add", "own.py")
    git("commit", "-qm", "one")
    (inside / "code.py").write_text("1")
    assert commit(inside) == ""  # installed somewhere in another's checkout
    git("add", ".")
    git("commit", "-qm", "two")
    clean = commit(inside)
    (tmp_path / "own.py").write_text("2")
    assert commit(inside) == clean
    assert commit(inside, tmp_path).startswith(f"{clean}+")
    (inside / "code.py").write_text("2")
    first = commit(inside)
    (inside / "code.py").write_text("3")
    second = commit(inside)
    assert first.startswith(f"{clean}+")
    assert len({clean, first, second}) == 3


def test_systems_are_named_or_refused():
    assert [one.name for one in chosen(["rrf"], answering=False, has_model=False)] == [
        "rrf"
    ]
    with pytest.raises(InvalidInputError, match="No system 'x'"):
        chosen(["x"], answering=False, has_model=False)
    with pytest.raises(InvalidInputError, match="only answers"):
        chosen(["full-context"], answering=False, has_model=False)
    assert [one.name for one in ablations(["all"])] == [
        f"without {part}" for part in ABLATIONS
    ]
    with pytest.raises(InvalidInputError, match="No part 'x'"):
        ablations(["x"])
    assert [one.name for one in sweep([0, 2], [1])] == [
        "depth 0, breadth 1",
        "depth 2, breadth 1",
    ]


class Embedder(HashEmbeddings):
    """Counts the texts it embeds, and knows a window."""

    def __init__(self):
        super().__init__()
        self.texts = 0

    def embed_documents(self, texts):
        self.texts += len(texts)
        return super().embed_documents(texts)

    def split(self, text):
        return [(0, len(text))]


def test_cache_keeps_vectors_name_and_split(tmp_path: Path):
    inner = Embedder()
    first = cached(inner, tmp_path / "vectors.sqlite")
    vectors = first.embed_documents(["one", "two", "one"])
    first.close()
    again = cached(inner, tmp_path / "vectors.sqlite")
    assert np.allclose(again.embed_documents(["one", "two", "one"]), vectors)
    assert np.allclose(again.embed_query("two"), vectors[1])
    assert inner.texts == 2
    assert type(again).__name__ == "Embedder"
    assert (again.model_name, again.split("abc")) == (inner.model_name, [(0, 3)])
    again.close()


class Named(Embeddings):
    """Another provider's: it names its model otherwise, and embeds queries otherwise."""

    def __init__(self, model):
        self.model = model

    def embed_documents(self, texts):
        return [[len(self.model), 0.0] for _ in texts]

    def embed_query(self, text):
        return [0.0, len(self.model)]


def test_cache_tells_models_and_queries_apart(tmp_path):
    caches = [
        cached(Named(model), tmp_path / "vectors.sqlite") for model in ("a", "bb")
    ]
    for size, cache in enumerate(caches, 1):
        assert cache.embed_documents(["one"]) == [[size, 0.0]]
        assert [cache.embed_query("one"), cache.embed_query("one")] == [[0.0, size]] * 2
        assert cache.embed_documents(["one"]) == [[size, 0.0]]
    folders = {replace(job(tmp_path), embeddings=cache).folder for cache in caches}
    assert len(folders) == 2
    for cache in caches:
        cache.close()


def test_cache_takes_vectors_made_elsewhere(tmp_path: Path):
    inner = Embedder()
    cache = cached(inner, tmp_path / "vectors.sqlite")
    cache.keep(["one"], HashEmbeddings().embed_documents(["one"]))
    assert cache.missing(["one", "two"]) == ["two"]
    assert np.allclose(cache.embed_query("one"), HashEmbeddings().embed_query("one"))
    assert inner.texts == 0
    cache.close()


def test_naive_rag_is_by_cosine_whatever_the_length_of_the_vectors():
    class Long(HashEmbeddings):
        def embed_documents(self, texts):
            return [
                [10 * x * len(t) for x in v]
                for t, v in zip(texts, super().embed_documents(texts), strict=True)
            ]

    system = baselines.NaiveRag(Long())
    system.add(
        Session("s", [message(1, "a shed"), message(2, "a shed " + "word " * 50)])
    )
    assert [one.id for one in system.search("a shed", 2, "message")] == ["m1", "m2"]
