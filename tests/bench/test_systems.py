"""All systems, the cache and the report on a tiny conversation with the test embedder."""

import numpy as np
import pytest

from benchmarks import retrieval
from benchmarks.cache import cached
from benchmarks.loaders import Conversation, Question, Session
from benchmarks.results import report
from benchmarks.systems import all_systems
from langmem_graph.embeddings import HashEmbeddings


def message(number, text):
    return {"id": f"m{number}", "role": "user", "name": "Mira", "content": text}


SESSIONS = [
    Session("s1", [message(1, "The shed needs a red roof."), message(2, "Beans grow well.")]),
    Session("s2", [message(3, "My flight to Lisbon is on Friday."), message(4, "")]),
]


@pytest.mark.parametrize(("by", "expected"), [("message", "m3"), ("session", "s2")])
def test_every_system_finds_the_words(by, expected):
    systems = all_systems(HashEmbeddings())
    for system in systems:
        for session in SESSIONS:
            system.add(session)
    try:
        found = {system.name: system.search("flight to Lisbon", 2, by) for system in systems}
    finally:
        for system in systems:
            system.close()
    assert set(found) == {"ours", "ours+records", "rrf", "dense", "bm25", "dense-text"}
    assert {ids[0] for ids in found.values()} == {expected}


def test_realmem_style_replay_sees_only_earlier_sessions():
    question = Question("flight to Lisbon", "any", frozenset({"s1"}), before=1)
    conversation = Conversation("tiny", SESSIONS, [question])
    benchmark = retrieval.BENCHMARKS[1]
    answers = retrieval.answer_all([conversation], benchmark, lambda: all_systems(HashEmbeddings()))
    assert len(answers) == 6
    assert all(set(answer.found) <= {"s1"} for answer in answers)


def test_report_names_every_system():
    question = Question("flight to Lisbon", "travel", frozenset({"m3"}))
    conversation = Conversation("tiny", SESSIONS, [question])
    benchmark = retrieval.BENCHMARKS[0]
    answers = retrieval.answer_all([conversation], benchmark, lambda: all_systems(HashEmbeddings()))
    text = report("Tiny", answers, benchmark.cuts)
    assert "## Tiny: 1 questions" in text
    assert "| ours | 1.000 | 1.000 | 1.000 | 1.000 | 1.000–1.000 |" in text


class Counting(HashEmbeddings):
    """Counts the texts it embeds, and knows a window."""

    def __init__(self):
        super().__init__()
        self.texts = 0

    def embed_documents(self, texts):
        self.texts += len(texts)
        return super().embed_documents(texts)

    def split(self, text):
        return [(0, len(text))]


def test_cache_keeps_vectors_name_and_split(tmp_path):
    inner = Counting()
    first = cached(inner, tmp_path / "vectors.sqlite")
    vectors = first.embed_documents(["one", "two", "one"])
    first.close()
    again = cached(inner, tmp_path / "vectors.sqlite")
    assert np.allclose(again.embed_documents(["one", "two", "one"]), vectors)
    assert np.allclose(again.embed_query("two"), vectors[1])
    assert inner.texts == 2
    assert type(again).__name__ == "Counting"
    assert (again.model_name, again.split("abc")) == (inner.model_name, [(0, 3)])
    again.close()


def test_cache_takes_vectors_made_elsewhere(tmp_path):
    inner = Counting()
    cache = cached(inner, tmp_path / "vectors.sqlite")
    cache.keep(["one"], HashEmbeddings().embed_documents(["one"]))
    assert cache.missing(["one", "two"]) == ["two"]
    assert np.allclose(cache.embed_query("one"), HashEmbeddings().embed_query("one"))
    assert inner.texts == 0
    cache.close()
