"""Due work is looked for without locking the ledger for writing, and done where there is any."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from langmem_graph.errors import EmbedderMismatchError
from langmem_graph.memory import Memory
from langmem_graph.testing import HashEmbeddings
from tests.conftest import TroubledEmbeddings, said

Reopen = Callable[..., Memory]


@contextmanager
def _transactions() -> Iterator[list[bool]]:
    """Of each transaction that begins inside, whether it writes."""
    seen: list[bool] = []

    def note(connection: sa.Connection) -> None:
        seen.append(bool(connection.get_execution_options().get("writing")))

    sa.event.listen(sa.Engine, "begin", note)
    try:
        yield seen
    finally:
        sa.event.remove(sa.Engine, "begin", note)


def test_where_nothing_is_due_nothing_is_locked(reopen: Reopen) -> None:
    reopen().user("u").add(said("hello", id="1"), session_id="s")
    memory = reopen()
    with _transactions() as opening:
        memory.user("u").search_conversation("hello")
    assert sum(opening) == 2  # tables are brought up to date, old claims given up
    with _transactions() as adding:
        memory.user("u").add(said("hello", id="1"), session_id="s")
    assert sum(adding) == 1  # the add itself
    with _transactions() as closing:
        memory.close()
    assert closing == [False]


def test_closing_does_what_is_due_of_both_layers(reopen: Reopen) -> None:
    user = reopen().user("u")
    user.add(said("the trombone is in the attic", id="1"), session_id="s")
    user.remember("The trombone is in the attic.")
    # what is remembered is a message too
    assert user.doctor(sample=0).waiting_to_index == 3
    health = reopen(read_only=True).user("u").doctor(sample=0)
    assert (health.vectors, health.waiting_to_index) == (3, 0)


def test_a_single_text_that_failed_is_tried_at_the_next_add(
    reopen: Reopen, troubled: TroubledEmbeddings
) -> None:
    user = reopen(embeddings=troubled).user("u")
    troubled.down = True
    assert user.add([said("first", id="1")], session_id="s").not_yet_embedded == ["1"]
    troubled.down = False
    user.add([said("second", id="2")], session_id="s")
    assert user.doctor(sample=0).waiting_to_embed == 0


def test_what_failed_is_tried_at_the_next_add(
    reopen: Reopen, troubled: TroubledEmbeddings
) -> None:
    user = reopen(embeddings=troubled).user("u")
    troubled.down = True
    talk = [said("first", id="1"), said("second", id="2")]
    assert user.add(talk, session_id="s").not_yet_embedded == ["1", "2"]
    troubled.down = False
    assert user.add(talk, session_id="s").stored == []
    assert user.doctor(sample=0).waiting_to_embed == 0


def test_another_embedder_is_named_and_what_is_embedded_is_indexed(
    reopen: Reopen, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = reopen(embeddings=HashEmbeddings(64))
    memory.user("u").add(said("hello", id="1"), session_id="s")
    with monkeypatch.context() as patch:
        patch.setattr(memory._services, "_finish_due_work", lambda *_: None)
        memory.close()
    user = reopen(embeddings=HashEmbeddings(32)).user("u")
    assert user.doctor(sample=0).waiting_to_index == 0
    assert "hash-64" in caplog.text
    with pytest.raises(EmbedderMismatchError):
        user.search_conversation("hello")
