"""Whose words a message holds, and when it was said."""

from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from langmem_graph.errors import InvalidInputError
from langmem_graph.importers import read_conversations
from langmem_graph.memory import Memory
from tests.conftest import said

BY_ROLE = {"user": "user", "assistant": "assistant", "tool": "tool", "system": "import"}


def origin_of(user: Any, message_id: str) -> str:
    return str(user.get_conversation(message_id)[0].origin)


def test_the_origin_is_that_of_the_role(memory: Memory) -> None:
    user = memory.user("u")
    talk = [{"role": role, "content": "Rain today.", "id": role} for role in BY_ROLE]
    assert user.add(talk, session_id="s").stored == list(BY_ROLE)
    assert {role: origin_of(user, role) for role in BY_ROLE} == BY_ROLE
    assert all("origin" not in row for row in user.export())
    assert {hit.role: hit.origin for hit in user.search_conversation("rain", 9)} == {
        role: origin for role, origin in BY_ROLE.items() if role != "system"
    }


@pytest.mark.parametrize("origin", ["import", "tool"])
def test_pasted_text_of_the_user_is_marked_and_stays_so(
    memory: Memory, origin: Any
) -> None:
    user = memory.user("u")
    pasted = said("Dear customer, change the account.", id="p", origin=origin)
    user.add([pasted, said("Look at this mail.", id="q")], session_id="s")
    assert (origin_of(user, "p"), origin_of(user, "q")) == (origin, "user")
    assert user.search_conversation("dear customer", 1)[0].origin == origin
    other = memory.user("v")
    for row in user.export():
        other.add(row, session_id="s")
    assert (origin_of(other, "p"), origin_of(other, "q")) == (origin, "user")


def test_an_origin_for_the_whole_call(memory: Memory) -> None:
    user = memory.user("u")
    marked = HumanMessage(
        "A tool's words.", id="b", additional_kwargs={"origin": "tool"}
    )
    user.add([said("A page.", id="a"), marked], session_id="s", origin="import")
    assert (origin_of(user, "a"), origin_of(user, "b")) == ("import", "tool")


@pytest.mark.parametrize("role", ["assistant", "tool", "system"])
@pytest.mark.parametrize("how", ["message", "call"])
def test_nobody_elses_words_become_the_users(
    memory: Memory, role: str, how: str
) -> None:
    user = memory.user("u")
    message = {"role": role, "content": "I like it."}
    own, whole = ({"origin": "user"}, None) if how == "message" else ({}, "user")
    report = user.add(message | own, session_id="s", origin=whole)
    assert "cannot have the origin 'user'" in report.rejected[0].reason
    assert user.export() == []


def test_an_unknown_origin_is_refused(memory: Memory) -> None:
    user = memory.user("u")
    with pytest.raises(
        InvalidInputError, match="origin must be one of user, assistant"
    ):
        user.add(said("a"), session_id="s", origin="friend")
    report = user.add(said("a", origin="friend"), session_id="s")
    assert report.rejected[0].reason.startswith("origin must be one of")


NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("given", [NOON, "2025-03-01T13:00:00+01:00", NOON.timestamp()])
def test_a_timestamp_is_when_it_was_said(memory: Memory, given: Any) -> None:
    user = memory.user("u")
    user.add(said("a", id="a", timestamp=given), session_id="s", at="2020-01-01")
    user.add(said("b", id="b", timestamp=given, at="2021-01-01"), session_id="s")
    first, second = user.get_conversation(["a", "b"])
    assert (first.at, second.at) == (NOON, datetime(2021, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    "key",
    "time date datetime date_time ts created created_at createdAt create_time sent_at sentAt "
    "sent when epoch timestamp_ms message_time Date".replace(
        "sent when", "when"
    ).split(),
)
def test_a_key_that_looks_like_a_time_is_refused(memory: Memory, key: str) -> None:
    user = memory.user("u")
    report = user.add([said("a", **{key: "2025-03-01"}), said("b")], session_id="s")
    assert report.rejected[0].reason.startswith(f"{key!r} looks like a time")
    assert "'at'" in report.rejected[0].reason
    assert [row["content"] for row in user.export()] == ["b"]


@pytest.mark.parametrize(
    "fields",
    [
        {"response_time": 3},
        {"date_of_birth": "1990-01-01"},
        {"metadata": {}},
        {"atlas": 1},
        {"created_at": None},
        {"created_at": "2025-03-01", "at": "2025-03-02"},
    ],
)
def test_other_keys_are_ignored(memory: Memory, fields: dict[str, Any]) -> None:
    assert memory.user("u").add(said("a", **fields), session_id="s").stored


def test_an_imported_file_may_name_its_times_otherwise(
    memory: Memory, tmp_path: Any
) -> None:
    file = tmp_path / "talk.jsonl"
    row = '{"role": "user", "content": "Hello.", "id": "m", "created_at": "2025-03-01T12:00Z"}'
    file.write_text(row)
    user = memory.user("u")
    for talk in read_conversations(file):
        assert user.add(talk.messages, session_id=talk.session_id).stored == ["m"]
    assert user.get_conversation("m")[0].at == NOON
