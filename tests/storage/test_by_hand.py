"""What is written by hand is stored whole, or not at all: its message and its record."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
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


PIN = "My PIN is 4711"
ALONE: dict[str, Any] = {"origin": "assistant", "quote": "nothing of the user's"}


def _bytes_of(memory: Memory) -> bytes:
    files = (file for file in Path(memory.path or "").rglob("*") if file.is_file())
    return b"".join(file.read_bytes() for file in files)


@pytest.mark.parametrize("options", [{}, ALONE], ids=["user", "assistant"])
@pytest.mark.parametrize("corrected", [False, True])
def test_a_forgotten_sentence_cannot_be_guessed(
    memory: Memory, options: dict[str, Any], corrected: bool
) -> None:
    """No id is made of the words alone, of which a hash would be kept."""
    user = memory.user("ana")
    record = user.remember("My PIN is secret")
    if corrected:
        record = user.correct(record.record_id, PIN, **options)
    else:
        record = user.remember(PIN, **options)
    said = record.message_ids[0]
    user.forget(message=said)
    memory.close()
    kept = _bytes_of(memory)
    guesses = [f"{kind}-{sha256(PIN.encode()).hexdigest()[:16]}"
               for kind in ("remembered", "noted", "corrected")]  # fmt: skip
    for name in (*guesses, said):
        for hashed in (name, f"remembered\0{name}"):
            assert sha256(hashed.encode()).hexdigest()[:32].encode() not in kept


def test_what_is_remembered_twice_is_stored_once(memory: Memory) -> None:
    user = memory.user("ana")
    first = user.remember(PIN)
    assert user.remember(PIN) == first
    assert len(user.export()) == 1
    for options in ({"metadata": {"about": "bank"}}, ALONE):
        before = len(user.export())
        user.remember(PIN, **options)
        user.remember(PIN, **options)
        assert len(user.export()) == before + 1


def test_threads_that_remember_the_same_store_it_once(memory: Memory) -> None:
    user = memory.user("ana")
    user.remember("I like windows")
    with ThreadPoolExecutor(8) as pool:
        made = {one.record_id for one in pool.map(user.remember, [PIN] * 24)}
    assert len(made) == 1
    assert len(user.export()) == 2


def test_what_has_ended_is_remembered_as_said_anew(memory: Memory) -> None:
    user = memory.user("ana")
    first = user.remember("I live in Rome")
    user.correct(first.record_id, "I live in Bari")
    again = user.remember("I live in Rome")
    assert (again.record_id == first.record_id, again.status) == (False, "active")
    user.hide(again.record_id)
    assert user.remember("I live in Rome").message_ids == again.message_ids


def test_another_kind_takes_the_place_of_the_former(memory: Memory) -> None:
    user = memory.user("ana")
    first = user.remember("Answer in German")
    rule = user.remember("Answer in German", kind="instruction")
    assert (rule.kind, rule.supersedes) == ("instruction", [first.record_id])
    assert user.remember("Answer in German") == rule
    assert user.remember("Answer in German", kind="instruction") == rule
    assert len(user.export()) == 2
    user.undo(rule.record_id)
    (back,) = user.get_records(first.record_id)
    assert (back.kind, back.status) == ("fact", "active")


def test_the_users_words_carry_what_was_a_draft(memory: Memory) -> None:
    """Forgetting the draft's message does not take them away."""
    user = memory.user("ana")
    draft = user.remember(PIN, origin="assistant")
    taken = user.remember(PIN)
    assert taken.record_id == draft.record_id
    assert (taken.origin, taken.confirmation) == ("user", "confirmed")
    user.forget(message=draft.message_ids[0])
    (kept,) = user.get_records(taken.record_id)
    assert (kept.status, kept.origin) == ("active", "user")


def test_a_draft_is_borne_out_later(memory: Memory) -> None:
    user = memory.user("ana")
    draft = user.remember("Ana has the locker 4711", origin="assistant")
    user.add([("user", "My locker is 4711.")], session_id="s")
    settled = user.remember(
        "Ana has the locker 4711",
        origin="assistant",
        quote="My locker is 4711",
        session_id="s",
    )
    assert settled.record_id == draft.record_id
    assert settled.confirmation == "confirmed"
