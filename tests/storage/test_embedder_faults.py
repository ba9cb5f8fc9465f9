"""An embedder that fails, refuses or changes: nothing acknowledged is lost, and it is said."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from langmem_graph.errors import EmbedderMismatchError
from langmem_graph.memory import Memory
from langmem_graph.testing import HashEmbeddings
from tests.conftest import TroubledEmbeddings, said
from tests.support.files import folder

Reopen = Callable[..., Memory]


def test_a_failing_embedder_loses_nothing_and_heals_at_the_next_opening(
    reopen: Reopen, troubled: TroubledEmbeddings
) -> None:
    user = reopen(embeddings=troubled).user("u")
    user.add(said("we met the gardener", id="1"), session_id="s")
    troubled.down = True
    report = user.add([said("the trombone is in the attic", id="2")], session_id="s")
    assert (report.stored, report.not_yet_embedded) == (["2"], ["2"])
    assert "the embedder is out" in report.warnings[0]
    assert user.search_conversation("trombone")[0].message_id == "2"
    recall = user.recall("trombone")
    assert (recall.report.status, recall.evidence[0].message_id) == ("degraded", "2")
    assert not user.doctor().ok
    troubled.down = False
    user = reopen(embeddings=troubled).user("u")
    assert user.recall("trombone").report.status == "ok"
    assert user.doctor().ok
    assert (
        user.search_conversation("trombone attic", ranking="dense")[0].message_id == "2"
    )


def test_what_another_process_embeds_by_now_is_left_to_it(
    reopen: Reopen, troubled: TroubledEmbeddings
) -> None:
    memory = reopen(embeddings=troubled)
    user = memory.user("u")
    user.add(said("first"), session_id="s")

    def claimed_meanwhile(vectors: list[list[float]]) -> list[list[float]]:
        with (
            closing(sqlite3.connect(folder(memory, "u") / "ledger.db")) as ledger,
            ledger,
        ):
            ledger.execute(
                "UPDATE outbox SET claimed_by = 'another', claimed_until = 9e9"
            )
        return vectors

    troubled.answer = claimed_meanwhile
    assert user.add(said("second", id="2"), session_id="s").not_yet_embedded == ["2"]
    assert user.doctor(sample=0).vectors == 1


def test_one_text_the_embedder_refuses_blocks_no_other(
    memory: Memory, reopen: Reopen, troubled: TroubledEmbeddings
) -> None:
    memory.close()
    troubled.poison = "poison"
    user = reopen(embeddings=troubled).user("u")
    talk = [
        said(f"message {n}" + (" poison" if n == 3 else ""), id=str(n))
        for n in range(10)
    ]
    report = user.add(talk, session_id="s")
    assert (len(report.stored), report.not_yet_embedded) == (10, ["3"])
    health = user.doctor()
    assert (health.vectors, health.waiting_to_embed) == (9, 1)
    calls = troubled.calls
    user.add([said(f"more {n}", id=f"more{n}") for n in range(20)], session_id="s")
    assert troubled.calls - calls <= 3  # the new ones at once, the bad one by itself
    troubled.poison = None
    user.add(said("another", id="10"), session_id="s")
    assert user.doctor().vectors == 31


@pytest.mark.parametrize(
    "answer",
    [
        lambda vectors: vectors[:-1],
        lambda vectors: [[float("nan")] * len(v) for v in vectors],
        lambda vectors: [[1e300] * len(v) for v in vectors],
        lambda vectors: [[3e38] * len(v) for v in vectors],
        lambda vectors: [[0.0] * len(v) for v in vectors],
        lambda vectors: [[*v, 1.0] for v in vectors],
        lambda vectors: None,
        lambda vectors: ["words"] * len(vectors),
        lambda vectors: [[] for _ in vectors],
    ],
)
def test_an_unusable_answer_is_no_vector(
    reopen: Reopen, troubled: TroubledEmbeddings, answer: Any
) -> None:
    user = reopen(embeddings=troubled).user("u")
    user.add(said("first", id="1"), session_id="s")
    troubled.answer = answer
    report = user.add([said("second", id="2"), said("third", id="3")], session_id="s")
    assert sorted(report.not_yet_embedded) == ["2", "3"]
    assert report.warnings
    assert user.doctor().vectors == 1
    assert user.search_conversation("second")[0].message_id == "2"


def test_another_embedder_is_refused_until_everything_is_embedded_anew(
    reopen: Reopen,
) -> None:
    reopen(embeddings=HashEmbeddings(64)).user("u").add(
        said("hello", id="1"), session_id="s"
    )
    user = reopen(embeddings=HashEmbeddings(32)).user("u")
    for call in (
        lambda: user.add(said("x"), session_id="s"),
        lambda: user.search_conversation("hello"),
        user.rebuild,
    ):
        with pytest.raises(EmbedderMismatchError, match="hash-64"):
            call()
    assert user.get_conversation("1")[0].text == "hello"
    assert user.rebuild(reembed=True).ok
    assert user.search_conversation("hello")[0].message_id == "1"
