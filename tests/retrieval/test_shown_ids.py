"""Messages' ids in contexts: a UUID is shown by its end, and found by it again."""

from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_graph import Memory
from langmem_graph.ids_and_times import end_of, shown_id
from langmem_graph.tools import create_memory_tools
from tests.conftest import said

RUN = "lc_run--01a20731-ac8d-7200-ade8-513dc95a82b2-0"


def test_a_context_names_the_end_of_a_uuid(memory: Memory) -> None:
    user, own = memory.user("ana"), str(uuid4())
    user.add(
        [said("I take an aisle seat.", id=own), said("Seat 4 is free.", id=RUN)],
        session_id="s",
    )
    context = user.recall("Which seat?").context
    assert (
        own not in context
        and f"[#{own[-10:]}]" in context
        and "[#c95a82b2-0]" in context
    )
    assert user.recall("Which seat?").evidence[0].message_id in (own, RUN), (
        "data has it whole"
    )
    for shown in (f"#{own[-10:]}", own):
        assert [one.id for one in user.get_conversation([shown])] == [own]


def test_a_tool_takes_what_it_has_shown(memory: Memory) -> None:
    user = memory.user("ana")
    user.add([said("I take an aisle seat.", id=RUN)], session_id="s")
    tools = {tool.name: tool for tool in create_memory_tools(memory, user_id="ana")}
    answer = tools["search_conversation"].invoke({"query": "seat"})
    assert "#c95a82b2-0" in answer
    assert "aisle seat" in tools["get_conversation"].invoke(
        {"message_ids": ["#c95a82b2-0"]}
    )
    assert "No message" in tools["get_conversation"].invoke(
        {"message_ids": ["#c95a82b2-1"]}
    )


@pytest.mark.parametrize(
    "name", ["m1", "monday-session-message-0001", "#c95a82b2-0", "a_b%c"]
)
def test_other_ids_are_shown_whole_and_found(memory: Memory, name: str) -> None:
    user = memory.user("ana")
    user.add(
        [said("I take an aisle seat.", id=name), said("No.", id=RUN)], session_id="s"
    )
    assert shown_id(name) == name
    assert name in {one.id for one in user.get_conversation([name])}


@given(
    st.uuids(),
    st.sampled_from(["", "-0", "~2", "-12~3"]),
    st.sampled_from(["", "lc_run--", "run-"]),
)
def test_the_end_of_what_is_shown_is_the_end_of_the_id(
    uuid: object, after: str, before: str
) -> None:
    name = f"{before}{uuid}{after}"
    end = end_of(shown_id(name))
    assert end is not None and name.endswith(end)
    assert end_of(name) is None
