"""Clients whose messages have ids that begin anew with every conversation, or change."""

from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langmem_graph.graphs import create_write_node
from langmem_graph.memory import Memory
from tests.support.graphs import config

FIRST = ["Tea?", "Sure?", "Yes."]
SECOND = ["Delete it all?", "Sure?", "Yes."]


def _talk(*said: str) -> list[Any]:
    kinds = (HumanMessage, AIMessage)
    return [kinds[n % 2](text, id=str(n + 1)) for n, text in enumerate(said)]


def _write(memory: Memory, thread: str, *said: str) -> None:
    create_write_node(memory).invoke({"messages": _talk(*said)}, config(thread=thread))


def _kept(memory: Memory, thread: str) -> list[str]:
    found = [one for one in memory.user("ana").export() if one["session_id"] == thread]
    return [one["content"] for one in found]


def test_the_same_words_under_the_same_id_are_kept_in_each_conversation(
    memory: Memory,
) -> None:
    _write(memory, "a", *FIRST)
    for end in (2, 3, 3):
        _write(memory, "b", *SECOND[:end])
    assert (_kept(memory, "a"), _kept(memory, "b")) == (FIRST, SECOND)


@pytest.mark.parametrize("gone", ["message", "session"])
def test_what_is_forgotten_of_one_conversation_is_kept_of_the_next(
    memory: Memory, gone: str
) -> None:
    _write(memory, "a", *FIRST)
    memory.user("ana").forget(**{gone: {"message": "3", "session": "a"}[gone]})
    _write(memory, "b", *SECOND)
    _write(memory, "a", *FIRST)
    assert _kept(memory, "b") == SECOND
    assert _kept(memory, "a") == (FIRST[:2] if gone == "message" else [])


def test_what_was_kept_beside_a_forgotten_message_is_not_kept_twice(
    memory: Memory,
) -> None:
    _write(memory, "a", *FIRST)
    _write(memory, "b", *SECOND)
    memory.user("ana").forget(session="a")
    _write(memory, "b", *SECOND, "Done.")
    assert _kept(memory, "b") == [*SECOND, "Done."]
    memory.user("ana").forget(session="b")
    _write(memory, "b", *SECOND, "Done.", "Thanks.")
    assert _kept(memory, "b") == ["Thanks."]


def test_a_conversation_sent_again_in_a_new_thread_is_known_by_its_words(
    memory: Memory,
) -> None:
    for end in range(2, 6):
        _write(memory, f"run {end}", *("Hello.", "Hi.", "Tea?", "Sure?", "Yes.")[:end])
    kept = [one["content"] for one in memory.user("ana").export()]
    assert kept == ["Hello.", "Hi.", "Tea?", "Sure?", "Yes."]


@pytest.mark.parametrize("sent", ["everything", "words"])
def test_answers_to_which_a_client_gives_ids_of_its_own_are_stored_once(
    memory: Memory, sent: str
) -> None:
    write, talk = create_write_node(memory), list[Any]()
    for n, text in enumerate(("Hello.", "My cat is Pico.", "Yes.", "Yes.")):
        call = {"name": "clock", "args": {}, "id": f"c{n}"}
        talk.append(HumanMessage(text, id=f"{n} of the client's own"))
        answer = [
            AIMessage("", tool_calls=[call]),
            ToolMessage("noon", tool_call_id=f"c{n}"),
        ]
        answer = [*answer, AIMessage("Sure." if n < 3 else "Bye.")]
        for one in answer:
            one.id = str(uuid4())
        write.invoke({"messages": talk}, config())
        write.invoke({"messages": [*talk, *answer]}, config())
        shown = answer if sent == "everything" else answer[-1:]
        talk += [one.model_copy(update={"id": str(uuid4())}) for one in shown]
    said = [
        one["content"] for one in memory.user("ana").export() if one["role"] != "tool"
    ]
    words = [one for one in said if not one.startswith("[calls")]
    assert words == [
        "Hello.",
        "Sure.",
        "My cat is Pico.",
        "Sure.",
        "Yes.",
        "Sure.",
        "Yes.",
        "Bye.",
    ]
    assert len(said) == 12
