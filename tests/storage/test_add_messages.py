"""Adding: identity, accepted forms, reports; nothing is overwritten or dropped in silence."""

import json
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    ToolMessage,
)

from langmem_graph.errors import InvalidInputError, MissingUserError
from langmem_graph.memory import Memory
from langmem_graph.settings import Settings, StorageSettings
from tests.conftest import said
from tests.support.examples import examples


def test_stored_messages_come_back_word_for_word(memory: Memory) -> None:
    alice = memory.user("alice")
    text = "Line one\n\n\tline two — “quoted” \U0001f9e0 日本\r\n  end  "
    report = alice.add(
        [said(text, id="m1", name="Al", at="2024-05-01T10:00")], session_id="s"
    )
    assert report.stored == ["m1"]
    (message,) = alice.get_conversation(["m1"])
    assert (message.text, message.name, message.session_id) == (text, "Al", "s")
    assert message.at == datetime(2024, 5, 1, 10, tzinfo=UTC)


def test_the_same_message_again_is_already_known(memory: Memory) -> None:
    alice = memory.user("alice")
    talk = [said("hello", id="a"), said("hello there", id="b")]
    alice.add(talk, session_id="s")
    again = alice.add(talk, session_id="s")
    assert (again.stored, again.already_known) == ([], ["a", "b"])
    assert len(alice.export()) == 2


def test_another_text_under_a_taken_id_is_kept_beside_it(memory: Memory) -> None:
    alice = memory.user("alice")
    for text in ("one", "two", "three", "two"):
        report = alice.add(said(text, id="x"), session_id="s")
    assert report.already_known == ["x~2"]
    assert [row["id"] for row in alice.export()] == ["x", "x~2", "x~3"]
    assert [m.text for m in alice.get_conversation(["x", "x~2", "x~3"])] == [
        "one",
        "two",
        "three",
    ]


def test_without_ids_a_replay_adds_nothing_and_repeats_within_it_are_kept(
    memory: Memory,
) -> None:
    alice = memory.user("alice")
    talk = [said("ok"), {"role": "assistant", "content": "ok"}, said("ok")]
    assert len(alice.add(talk, session_id="s").stored) == 3
    assert len(alice.add(talk, session_id="s").already_known) == 3
    assert len(alice.add(talk, session_id="t").stored) == 3


def test_without_ids_another_time_is_another_message(memory: Memory) -> None:
    alice = memory.user("alice")
    for day in (1, 2):
        report = alice.add(said("took my pill"), session_id="s", at=f"2024-01-0{day}")
        assert len(report.stored) == 1


@pytest.mark.parametrize(
    ("message", "role", "text"),
    [
        (HumanMessage("hi", id="1"), "user", "hi"),
        (AIMessage("yes", id="1"), "assistant", "yes"),
        (SystemMessage("be kind", id="1"), "system", "be kind"),
        (ToolMessage("42", tool_call_id="c", id="1"), "tool", "42"),
        (HumanMessageChunk("hi", id="1"), "user", "hi"),
        (AIMessageChunk("yes", id="1"), "assistant", "yes"),
        (ChatMessage(role="user", content="hey", id="1"), "user", "hey"),
        (
            HumanMessage(
                [
                    {"type": "text", "text": "a"},
                    {"type": "image_url", "image_url": "u"},
                    "b",
                ],
                id="1",
            ),
            "user",
            "a\nb",
        ),
        (
            {"role": "human", "content": [{"type": "text", "text": "x"}], "id": 1},
            "user",
            "x",
        ),
    ],
)
def test_accepted_forms(memory: Memory, message: Any, role: str, text: str) -> None:
    alice = memory.user("alice")
    assert alice.add(message, session_id=7).stored == ["1"]
    (stored,) = alice.get_conversation("1")
    assert (stored.role, stored.text, stored.session_id) == (role, text, "7")


def test_a_bare_tool_call_is_kept_with_its_arguments(memory: Memory) -> None:
    call = {"name": "book", "args": {"seat": "12C"}, "id": "c1", "type": "tool_call"}
    alice = memory.user("alice")
    alice.add([AIMessage("", tool_calls=[call], id="1")], session_id="s")
    (stored,) = alice.get_conversation("1")
    assert stored.tool_calls == [call]
    assert "12C" in stored.text


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
SOUND = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
NESTED = {
    "type": "tool_result",
    "content": [{"type": "text", "text": "4 degrees"}, PICTURE],
}
CALLS = [{"name": "f", "args": {}, "id": "1"}]
SPOKEN = {"id": "a", "data": "AAAA", "transcript": "At nine."}
ENDLESS: dict[str, Any] = {"type": "loop"}
ENDLESS["content"] = [ENDLESS]
CIRCULAR: list[Any] = []
CIRCULAR.append({"itself": CIRCULAR})


@pytest.mark.parametrize(
    ("message", "text", "dropped"),
    [
        (
            said([PICTURE, {"type": "text", "text": "My cat."}, PICTURE]),
            "My cat.",
            {"image_url": 2},
        ),
        (said([NESTED]), "4 degrees", {"image_url": 1}),
        (
            ToolMessage([{**NESTED, "content": "4 degrees"}], tool_call_id="c"),
            "4 degrees",
            {},
        ),
        (said([{**SOUND, "transcript": "Call me."}]), "Call me.", {"input_audio": 1}),
        (AIMessage("", additional_kwargs={"audio": SPOKEN}), "At nine.", {"audio": 1}),
        (
            {"role": "assistant", "content": None, "audio": SPOKEN},
            "At nine.",
            {"audio": 1},
        ),
        (AIMessage([{"type": "refusal", "refusal": "I can't."}]), "I can't.", {}),
        (
            AIMessage(
                [
                    {"type": "reasoning", "content": [{"type": "text", "text": "Hm."}]},
                    "Yes.",
                ]
            ),
            "Yes.",
            {"reasoning": 1},
        ),
        (
            AIMessage(
                [
                    {"type": "reasoning_content", "reasoning_content": {"text": "Hm."}},
                    "Yes.",
                ]
            ),
            "Yes.",
            {"reasoning_content": 1},
        ),
        (
            AIMessage(["Wait.", {"type": "tool_use", "id": "1"}], tool_calls=CALLS),
            "Wait.",
            {},
        ),
        (
            {
                "role": "assistant",
                "content": ["Wait.", {"type": "tool_use", "id": "1"}],
            },
            "Wait.",
            {"tool_use": 1},
        ),
        (said(["x", {"content": CIRCULAR}]), "x", {"other": 1}),
        (said(["x", ENDLESS]), "x", {"loop": 1}),
        (
            said(["x", {"type": "file", "file": {"file_data": "A"}}, 7]),
            "x",
            {"file": 1},
        ),
    ],
)
def test_text_in_blocks_is_kept_and_other_blocks_are_counted(
    memory: Memory, message: Any, text: str, dropped: dict[str, int]
) -> None:
    report = memory.user("a").add([message], session_id="s")
    assert report.dropped == dropped
    assert memory.user("a").get_conversation(report.stored)[0].text == text


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (said(""), "no text"),
        (said(" \n\t "), "no text"),
        (said([{"type": "image_url", "image_url": "http://x"}]), "no text"),
        (said(None), "no text"),
        (said({"a": 1}), "content must be"),
        (said(b"bytes"), "content must be"),
        ({"content": "x"}, "no role; use one of user, human, assistant, ai, tool,"),
        ({"role": "robot", "content": "x"}, "unknown role"),
        (said("x", at="yesterday"), "Not a time"),
        (said("x", at=float("nan")), "Not a time"),
        (said("x", id=1.5), "id must be"),
        (said("x", id="y" * 3000), "longer than"),
        (said("x", id="é" * 1500), "longer than"),
        (said("x\ud800"), "lone surrogate"),
        (said("y" * 501), "at most 500"),
        (said("", tool_calls=CIRCULAR), "not JSON"),
        (said("", tool_calls=[{"f": "\ud800"}]), "not JSON"),
        (said("", tool_calls=[{"f": json.loads("[" * 400 + "]" * 400)}]), "not JSON"),
        (42, "not a message"),
        (None, "not a message"),
    ],
)
def test_bad_messages_are_rejected_with_a_reason_and_spare_the_others(
    tmp_path: Any, message: Any, reason: str
) -> None:
    limits = Settings(storage=StorageSettings(max_message_chars=500))
    with Memory(tmp_path / "m", embeddings="hash", settings=limits) as memory:
        report = memory.user("a").add([said("good", id="g"), message], session_id="s")
        assert report.stored == ["g"]
        (rejected,) = report.rejected
        assert rejected.position == 1
        assert reason in rejected.reason


def test_a_session_whose_id_no_index_takes_is_refused(memory: Memory) -> None:
    with pytest.raises(InvalidInputError, match="2,000 bytes"):
        memory.user("a").add(said("x"), session_id="é" * 1_001)


def test_a_megabyte_is_kept_whole_and_found_by_its_last_word(memory: Memory) -> None:
    text = "filler words of a long report " * 35_000 + "zanzibarine"
    alice = memory.user("alice")
    alice.add([said(text, id="big")], session_id="s")
    alice.add([said("something else", id="small")], session_id="t")
    assert alice.search_conversation("zanzibarine")[0].message_id == "big"
    assert alice.get_conversation("big")[0].text == text


@pytest.mark.parametrize("bad", ["text", b"x", 5, None])
def test_what_is_no_list_of_messages_is_an_error(memory: Memory, bad: Any) -> None:
    with pytest.raises(InvalidInputError, match="messages must be a list"):
        memory.user("a").add(bad, session_id="s")


@pytest.mark.parametrize("bad", ["", "  ", None, True, 1.5, "\ud800"])
def test_sessions_and_users_need_an_id(memory: Memory, bad: Any) -> None:
    with pytest.raises(InvalidInputError):
        memory.user("a").add([said("x")], session_id=bad)
    with pytest.raises(MissingUserError):
        memory.user(bad)


def test_many_texts_under_one_id_are_all_kept_and_known_again(memory: Memory) -> None:
    user = memory.user("u")
    talks = [
        [said(f"text {n} {part}", id=str(part)) for part in range(3)] for n in range(12)
    ]
    for number, talk in enumerate([*talks, sum(talks, [])]):  # noqa: RUF017  # short lists
        report = user.add(talk, session_id=number)
        assert report.rejected == []
    assert len(report.already_known) == 36
    assert len(user.export()) == 36


def test_the_same_words_with_another_tool_call_are_another_message(
    memory: Memory,
) -> None:
    user = memory.user("u")
    for seat in ("12C", "14A"):
        call = {"name": "book", "args": {"seat": seat}, "id": seat, "type": "tool_call"}
        report = user.add(AIMessage("Let me check.", tool_calls=[call]), session_id="s")
        assert len(report.stored) == 1


def test_the_same_words_of_somebody_else_under_a_taken_id_are_kept(
    memory: Memory,
) -> None:
    talk = [said("Yes.", id="1"), {"role": "assistant", "content": "Yes.", "id": "1"}]
    assert memory.user("u").add(talk, session_id="s").already_known == []
    assert [row["role"] for row in memory.user("u").export()] == ["user", "assistant"]


def test_an_empty_list_is_fine(memory: Memory) -> None:
    assert memory.user("a").add([], session_id="s").stored == []


@pytest.mark.parametrize(
    "at",
    [
        datetime(2024, 3, 4, 5, 6),  # naive on purpose
        datetime(2024, 3, 4, 7, 6, tzinfo=timezone(timedelta(hours=2))),
        "2024-03-04T05:06:00Z",
        "2024-03-04 05:06",
        datetime(2024, 3, 4, 5, 6, tzinfo=UTC).timestamp(),
    ],
)
def test_times_are_kept_in_utc(memory: Memory, at: Any) -> None:
    memory.user("a").add(said("x", id="1", at=at), session_id="s")
    assert memory.user("a").get_conversation("1")[0].at == datetime(
        2024, 3, 4, 5, 6, tzinfo=UTC
    )


def test_a_date_is_its_midnight_and_the_calls_time_serves_those_without(
    memory: Memory,
) -> None:
    alice = memory.user("a")
    alice.add(
        [said("x", id="1"), said("y", id="2", at="2020-01-01")],
        session_id="s",
        at=date(2024, 3, 4),
    )
    first, second = alice.get_conversation(["1", "2"])
    assert (first.at.year, second.at.year) == (2024, 2020)


def test_system_messages_are_kept_but_never_found(memory: Memory) -> None:
    alice = memory.user("a")
    alice.add(
        [
            {"role": "system", "content": "You are a pirate", "id": "sys"},
            said("pirate ships", id="u"),
        ],
        session_id="s",
    )
    assert [hit.message_id for hit in alice.search_conversation("pirate")] == ["u"]
    assert alice.get_conversation("sys")[0].text == "You are a pirate"
    assert alice.doctor().ok


_MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["user", "assistant"]),
            "content": st.text(max_size=30),
        },
        optional={"id": st.sampled_from(["a", "b", "c"]), "at": st.integers(0, 10**9)},
    ),
    max_size=8,
)


@given(calls=st.lists(_MESSAGES, max_size=4))
@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_every_message_ends_in_exactly_one_list_and_is_kept(
    tmp_path_factory: pytest.TempPathFactory, calls: list[list[dict[str, Any]]]
) -> None:
    with Memory(tmp_path_factory.mktemp("m"), embeddings="hash") as memory:
        user = memory.user("u")
        stored = 0
        for messages in calls:
            report = user.add(messages, session_id="s")
            new = len(report.stored) + len(report.renamed)
            assert new + len(report.already_known) + len(report.rejected) == len(
                messages
            )
            stored += new
            texts = {row["content"] for row in user.export()}
            rejected = {r.position for r in report.rejected}
            kept = {m["content"] for i, m in enumerate(messages) if i not in rejected}
            assert kept <= texts
        assert len(user.export()) == stored


def test_messages_may_be_pairs_as_langgraph_takes_them(memory: Memory) -> None:
    user = memory.user("u")
    pairs = [
        ("user", "Which seat?"),
        ("ai", "12A."),
        ("nobody", "x"),
        ("user", "a", "b"),
    ]
    report = user.add(pairs, session_id="s")
    assert [row["role"] for row in user.export()] == ["user", "assistant"]
    assert [one.position for one in report.rejected] == [2, 3]
    assert (
        user.add([{"role": "user", "content": "Which seat?"}], session_id="s").stored
        == []
    )
