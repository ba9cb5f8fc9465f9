"""Conversations that are sent again: each message once, and none is taken for an older one."""

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langmem_graph.graphs.nodes import create_write_node
from langmem_graph.memory import Memory
from tests.conftest import let_go, said
from tests.support.examples import examples
from tests.support.graphs import config

_numbers = count()


def call(name: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "book", "args": {}, "id": name}])


def write(
    memory: Memory, messages: list[BaseMessage], thread: str = "t", user: str = "ana"
) -> Any:
    """One run of the write node; the messages are copies, as they are when a state is read."""
    copies = [message.model_copy() for message in messages]
    return create_write_node(memory).invoke({"messages": copies}, config(user, thread))


def kept(memory: Memory, user: str = "ana") -> list[str]:
    return [row["content"] for row in memory.user(user).export()]


def sessions(memory: Memory) -> dict[str, int]:
    return {one.session_id: one.messages for one in memory.user("ana").sessions()}


def test_a_question_whose_first_step_is_a_tool_call_is_stored_once(
    memory: Memory,
) -> None:
    """No message has an id, neither in the state nor from the model."""
    turn = [HumanMessage("Book."), call("c1"), ToolMessage("done", tool_call_id="c1")]
    turn.append(AIMessage("It is booked."))
    for end in (1, 3, 3, 4):
        write(memory, turn[:end])
    assert [row["role"] for row in memory.user("ana").export()] == [
        "user", "assistant", "tool", "assistant",
    ]  # fmt: skip
    again = [HumanMessage("Book."), call("c2"), ToolMessage("done", tool_call_id="c2")]
    for end in (5, 7):
        write(memory, [*turn, *again][:end])
    assert len(kept(memory)) == 7


@pytest.fixture(scope="module")
def shared(tmp_path_factory: Any) -> Any:
    memory = Memory(tmp_path_factory.mktemp("shared") / "m", embeddings="hash")
    yield memory
    let_go(memory)


TURN = st.tuples(st.sampled_from(["yes", "no"]), st.integers(0, 2), st.booleans())


@pytest.mark.long
@settings(deadline=None, max_examples=examples(60))
@given(turns=st.lists(TURN, min_size=1, max_size=4), data=st.data())
def test_a_growing_state_in_which_only_the_users_messages_have_no_id(
    shared: Memory, turns: list[Any], data: st.DataObject
) -> None:
    """Whatever is repeated, and wherever the node is: before and after steps, once or twice."""
    user, state = f"u{next(_numbers)}", list[BaseMessage]()
    for text, steps, twice in turns:
        state.append(HumanMessage(text))
        write(shared, state, user=user)
        for _ in range(steps):
            step = f"c{next(_numbers)}"
            state += [call(step), ToolMessage("done", tool_call_id=step, id=f"t{step}")]
            state[-2].id = f"a{step}"
            if data.draw(st.booleans()):
                write(shared, state, user=user)
        state.append(AIMessage("ok", id=f"e{next(_numbers)}"))
        for _ in range(1 + twice):
            write(shared, state, user=user)
    assert [row["role"] for row in shared.user(user).export()] == [
        {"human": "user", "ai": "assistant"}.get(message.type, message.type)
        for message in state
    ]
    assert [text for text in kept(shared, user) if text in ("yes", "no")] == [
        t for t, *_ in turns
    ]


@pytest.mark.parametrize("sent", ["new turns", "everything"])
def test_a_system_prompt_with_a_fixed_id_says_nothing_of_the_others(
    memory: Memory, sent: str
) -> None:
    before: list[BaseMessage] = []
    for _ in range(3):
        turn = [HumanMessage("yes"), AIMessage("ok")]
        write(memory, [SystemMessage("Be brief.", id="prompt"), *before, *turn])
        before += turn if sent == "everything" else []
    assert kept(memory) == ["Be brief.", *["yes", "ok"] * 3]


def test_an_answer_without_an_id_is_known_by_the_named_message_before_it(
    memory: Memory,
) -> None:
    turn = [HumanMessage("Book.", id="u1"), AIMessage("It is booked.")]
    write(memory, turn)
    write(memory, [*turn, HumanMessage("And a taxi?", id="u2")])
    assert kept(memory) == ["Book.", "It is booked.", "And a taxi?"]


def test_a_question_that_failed_is_known_again_by_two_messages_before_it(
    memory: Memory,
) -> None:
    turn: list[BaseMessage] = [
        HumanMessage("Hello."),
        AIMessage("Hi."),
        HumanMessage("Book."),
    ]
    for _ in range(2):
        write(memory, turn)
    assert kept(memory) == ["Hello.", "Hi.", "Book."]


def test_answers_that_all_have_the_same_id_cost_no_word_of_the_user(
    memory: Memory,
) -> None:
    for text in ("yes", "no", "perhaps"):
        write(memory, [HumanMessage(text), AIMessage(f"{text}?", id="answer")])
    assert [text for text in kept(memory) if "?" not in text] == [
        "yes",
        "no",
        "perhaps",
    ]


def test_an_id_of_its_own_makes_equal_words_another_message(memory: Memory) -> None:
    """As where two branches answer the same, and one of them is stored before they meet."""
    question, left, right = (
        HumanMessage("Well?"),
        AIMessage("ok", id="l"),
        AIMessage("ok", id="r"),
    )
    write(memory, [question, left])
    write(memory, [question, right, left])
    assert kept(memory) == ["Well?", "ok", "ok"]


END = [said("Remind me of my pills."), {"role": "assistant", "content": "Which time?"}]
PASTED = [
    HumanMessage("Remind me of my pills."),
    AIMessage("Which time?"),
    HumanMessage("At nine."),
]


def test_a_thread_that_begins_with_the_end_of_another_keeps_its_own(
    memory: Memory,
) -> None:
    memory.user("ana").add([said("Hello."), *END], session_id="t1")
    write(memory, PASTED, thread="t2")
    write(memory, [*PASTED, AIMessage("Done.")], thread="t2")
    assert sessions(memory) == {"t1": 3, "t2": 4}
    assert memory.user("ana").forget(session="t1").messages == 3
    assert kept(memory) == [*(message.text for message in PASTED), "Done."]


def test_a_thread_that_begins_with_all_of_another_goes_on_with_it(
    memory: Memory,
) -> None:
    """As it is with clients that get a new thread for every run: one conversation, one session."""
    memory.user("ana").add(END, session_id="t1")
    write(memory, PASTED, thread="t2")
    assert sessions(memory) == {"t2": 3}
    assert memory.user("ana").forget(session="t1").messages == 0
    assert kept(memory) == [message.text for message in PASTED]
    assert memory.user("ana").forget(session="t2").messages == 3


def test_a_thread_that_only_repeats_another_is_one_of_its_own(memory: Memory) -> None:
    """Small talk is the same in many threads; nor does a system prompt make two threads one."""
    for thread in ("t1", "t2"):
        write(memory, PASTED[:2], thread)
    assert sessions(memory) == {"t1": 2, "t2": 2}
    write(memory, [SystemMessage("Be brief.")], "t3")
    write(memory, [SystemMessage("Be brief."), *PASTED[2:], AIMessage("ok")], "t4")
    assert sessions(memory) == {"t1": 2, "t2": 2, "t3": 1, "t4": 3}


def test_what_was_deleted_is_not_stored_when_it_is_sent_again(memory: Memory) -> None:
    """The thread still has it: an application's checkpointer is out of reach of forgetting."""
    alice = memory.user("alice")
    talk = [said("My PIN is 4711.", id="a"), said("I sail.", id="b", at="2020-01-01")]
    alice.add(talk, session_id="s")
    alice.forget(message="a")
    alice.keep_days(messages=30)
    alice.expire()
    more = [{"role": "robot", "content": "?"}, *talk, said("And now?", id="c")]
    report = alice.add(more, session_id="s", whole_conversation=True)
    assert report.stored == ["c"]
    assert (len(report.rejected), report.forgotten) == (1, ["a", "b"])
    assert [m["content"] for m in alice.export()] == ["And now?"]


def test_an_edited_message_is_not_stored_after_it_was_forgotten(memory: Memory) -> None:
    alice = memory.user("alice")
    for text in ("My PIN is 4711.", "My PIN is 4712."):
        alice.add([said(text, id="a")], session_id="s", whole_conversation=True)
    alice.forget(message="a~2")
    edited = [said("My PIN is 4712.", id="a")]
    assert alice.add(edited, session_id="s", whole_conversation=True).stored == []
    assert [m["content"] for m in alice.export()] == ["My PIN is 4711."]


def test_what_was_deleted_is_stored_when_it_is_told_anew(memory: Memory) -> None:
    alice = memory.user("alice")
    talk = [said("I sail.", id="a")]
    for _ in range(2):
        alice.add(talk, session_id="s")
        kept = alice.export()
        alice.forget(message="a")
    assert alice.add(kept, session_id="s").stored == ["a"]
    assert alice.add(talk, session_id="s", whole_conversation=True).already_known == [
        "a"
    ]


PICTURE: Any = [
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
]


def test_what_holds_no_text_is_counted_once(tmp_path: Path) -> None:
    """A picture alone is not stored: its id or what follows it says that it came before."""
    memory, talk = Memory(tmp_path / "m", embeddings="hash"), [said(PICTURE, id="p1")]

    def counted(*more: Any) -> int:
        talk.extend(more)
        report = memory.user("ana").add(talk, session_id="s", whole_conversation=True)
        assert report.dropped.keys() <= {"image_url"}
        assert len(report.rejected) == sum(one["content"] == PICTURE for one in talk)
        return report.dropped.get("image_url", 0)

    assert counted() == 1
    assert not memory.users()
    assert counted(said("What is it?", id="m1")) == 0
    assert (
        counted(said(PICTURE, id="p2"), said(PICTURE), said("And now?", id="m2")) == 2
    )
    assert counted() == 0
    described: Any = [*PICTURE, {"type": "text", "text": "And this?"}]
    assert counted(said(described, id="m3"), said(PICTURE, id="p3")) == 2
    assert counted() == 0
    memory.close()
    memory = Memory(tmp_path / "m", embeddings="hash")
    # nobody knows p3: nothing stored follows it
    assert counted(said("Thanks.", id="m4")) == 1
    assert counted() == 0
    let_go(memory)


def test_pictures_of_another_session_or_user_are_others(memory: Memory) -> None:
    places = [("ana", "s"), ("ana", "t"), ("ben", "s"), ("ana", "s")]
    reports = [
        memory.user(u).add(said(PICTURE, id="p1"), session_id=s) for u, s in places
    ]
    assert [report.dropped.get("image_url", 0) for report in reports] == [1, 1, 1, 0]
