"""What is written by hand is stored whole, or not at all: its message and its record."""

from collections.abc import Callable
from typing import Any

import pytest

from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory, UserMemory
from tests.conftest import TroubledEmbeddings

Call = Callable[[UserMemory, str], Any]
Held = list[tuple[str, str]]


def _held(user: UserMemory) -> tuple[set[str], Held]:
    """The messages' texts, and the records with their status."""
    messages = {message["content"] for message in user.export()}
    return messages, sorted((one.status, one.text) for one in user.records())


@pytest.mark.parametrize(
    "call, after",
    [
        (
            lambda user, _: user.remember("I like aisles"),
            [("active", "I like aisles"), ("active", "I like windows")],
        ),
        (
            lambda user, record: user.correct(record, "I like aisles"),
            [("active", "I like aisles"), ("superseded", "I like windows")],
        ),
    ],
    ids=["remember", "correct"],
)
def test_message_and_record_are_stored_before_either_is_embedded(
    reopen: Callable[..., Memory], troubled: TroubledEmbeddings, call: Call, after: Held
) -> None:
    """A process that is killed while it embeds leaves no message without its record."""
    user = reopen(embeddings=troubled).user("ana")
    record = user.remember("I like windows").record_id
    seen = list[tuple[set[str], Held]]()

    def look(vectors: list[list[float]]) -> list[list[float]]:
        seen.append(_held(user))
        return vectors

    troubled.answer = look
    call(user, record)
    both = {"I like windows", "I like aisles"}
    assert seen == [(both, after)] * len(seen)
    assert len(seen) == 2


@pytest.mark.parametrize(
    "call",
    [
        lambda user, record: user.correct(
            record, "On Tuesdays", event_time={"start": float("nan")}
        ),
        lambda user, _: user.remember("On Tuesdays", kind="no kind"),
    ],
    ids=["correct", "remember"],
)
def test_what_is_refused_leaves_no_message(memory: Memory, call: Call) -> None:
    user = memory.user("ana")
    record = user.remember("I swim on Mondays").record_id
    before = _held(user)
    with pytest.raises(InvalidInputError):
        call(user, record)
    assert _held(user) == before
