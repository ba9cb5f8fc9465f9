"""The environment: actions in every form, budget, ids shown, and policies that misbehave."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from langmem_graph.errors import ClosedMemoryError, InvalidInputError
from langmem_graph.memory import Memory
from langmem_graph.navigation.actions import MAX_CALLS, navigation_tools
from langmem_graph.navigation.reward import Rubric
from langmem_graph.navigation.rollouts import NavigationEnv
from tests.support.examples import examples
from tests.support.navigation import ANSWER, LOOK, OF_ANA, SEAT, SUM, fill


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with Memory(tmp_path_factory.mktemp("known"), embeddings="hash") as opened:
        yield fill(opened)


def call(name: str, arguments: Any, call_id: str | None = "c1") -> dict[str, Any]:
    """A call in OpenAI's format."""
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def asking(*calls: Any, content: Any = "") -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def begun(memory: Memory, **options: Any) -> NavigationEnv:
    env = NavigationEnv(memory, **options)
    env.reset(SEAT)
    return env


def test_a_question_is_looked_up_and_answered(known: Memory) -> None:
    env = NavigationEnv(known)
    first = env.reset(SEAT)
    rules, question = first["messages"]
    assert "4 turns" in rules["content"]
    assert '{"answer": ' in rules["content"]
    assert question == {"role": "user", "content": "Which seat do I take?"}
    assert (first["turns_left"], first["shown"]) == (4, [])

    seen, reward, done, info = env.step(
        asking(call("search_conversation", '{"query": "seat"}'))
    )
    (answer,) = seen["messages"]
    assert (answer["role"], answer["tool_call_id"]) == ("tool", "c1")
    assert "I always take an aisle seat." in answer["content"]
    assert "window" not in answer["content"]
    assert (seen["turns_left"], reward, done, info["finish"]) == (
        3,
        0.0,
        False,
        "unfinished",
    )
    assert "m1" in seen["shown"]

    seen, reward, done, info = env.step(
        {"role": "assistant", "content": json.dumps(ANSWER)}
    )
    assert (seen["messages"], reward, done, info["finish"]) == (
        [],
        1.0,
        True,
        "answered",
    )
    assert info["score"] == {
        "reward": 1.0,
        "well_formed": True,
        "correct": True,
        "used": True,
        "evidence": 1.0,
    }
    walked = env.navigation
    assert (walked.answer, walked.reason, walked.turns) == ("An aisle seat.", "m1", 1)
    assert [one["role"] for one in walked.messages] == [
        *("system", "user", "assistant", "tool", "assistant")
    ]


LAYERS = [
    ("search_records", {"query": "aisle seats"}, "records", {"m1", "r1"}),
    ("get_records", {"record_ids": ["r1"]}, "records", {"m1", "r1"}),
    ("search_conversation", {"query": "aisle"}, "messages", {"m1"}),
    ("get_conversation", {"message_ids": ["m2"]}, "messages", {"m2"}),
    ("read_file", {"name": "topics/travel.md"}, "topics", {"r1"}),
    ("read_file", {"name": "index.md"}, "topics", set()),
    ("read_file", {"name": "profile.md"}, "profile", set()),
]


@pytest.mark.parametrize(("name", "arguments", "layer", "shown"), LAYERS)
def test_each_tool_reads_its_layer_and_what_it_showed_is_noted(
    known: Memory, name: str, arguments: dict[str, Any], layer: str, shown: set[str]
) -> None:
    env = begun(known)
    seen, *_ = env.step({"name": name, "arguments": arguments})
    (use,) = env.navigation.tool_calls
    assert (use.name, use.arguments, use.turn) == (name, arguments, 1)
    assert (use.layer, use.error) == (layer, None)
    assert shown <= {*use.message_ids, *use.record_ids} <= OF_ANA
    text = seen["messages"][0]["content"]
    assert all(one in text for one in {*use.message_ids, *use.record_ids})


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        (None, "cannot be NoneType"),
        (7, "cannot be int"),
        ([], "cannot be list"),
        ("", "empty"),
        (" \n", "empty"),
        ({}, "empty"),
        ({"role": "assistant", "content": None}, "empty"),
        ({"tool_calls": "search_records"}, "no list"),
        ({"tool_calls": {"name": "search_records"}}, "no list"),
        (asking(None), "names no tool"),
        (asking({"id": "c1"}), "names no tool"),
        (asking(call("", "{}")), "names no tool"),
        (asking(call("rm -rf /", "{}")), "names no tool"),
        (asking(call("delete_everything", "{}")), "no tool 'delete_everything'"),
        (asking(call("remember", '{"text": "I own a yacht."}')), "no tool 'remember'"),
        (asking(call("search_records", '{"query": "seat"')), "not JSON"),
        (asking(call("search_records", "[1]")), "a JSON object"),
        (asking(call("search_records", "{}")), "do not fit: query"),
        (asking(call("search_records", '{"query": 7}')), "do not fit: query"),
        (asking(call("search_records", {"query": "x" * 20_000})), "more than 10000"),
        (asking(call("search_records", {"query": {1, 2}})), "not JSON"),
        (asking(call("search_records", {"query": float("nan")})), "not JSON"),
        (asking(call("search_records", "[" * 9_000)), "not JSON"),
        (asking(call("get_records", '{"record_ids": "r1"}')), "do not fit: record_ids"),
        (asking(call("read_file", '{"name": "../../ledger"}')), "There is no file"),
    ],
)
def test_what_cannot_be_used_is_told_and_costs_a_turn(
    known: Memory, action: Any, problem: str
) -> None:
    env = begun(known)
    seen, reward, done, info = env.step(action)
    (answer,) = seen["messages"]
    assert problem in answer["content"]
    assert any(problem in told for told in info["problems"])
    assert (seen["turns_left"], seen["shown"], reward, done) == (3, [], 0.0, False)
    assert len(known.user("ana").export_records()) == 2  # nothing was written
    *_, done, info = env.step(ANSWER)  # it can still answer
    assert (done, info["finish"]) == (True, "answered")


def test_ids_of_another_user_show_nothing(known: Memory) -> None:
    env = begun(known)
    for name, arguments in [
        ("get_conversation", {"message_ids": ["b1"]}),
        ("get_records", {"record_ids": ["rb"]}),
    ]:
        seen, *_ = env.step({"name": name, "arguments": arguments})
        assert "window" not in seen["messages"][0]["content"]
    assert env.navigation.shown == frozenset()


def test_after_the_budget_only_an_answer_counts(known: Memory) -> None:
    env = begun(known, budget=2)
    env.step(LOOK)
    seen, *_ = env.step(LOOK)
    assert seen["turns_left"] == 0
    assert "last turn" in seen["messages"][-1]["content"]
    seen, reward, done, info = env.step(LOOK)
    assert (seen["messages"], reward, done, info["finish"]) == (
        [],
        -1.0,
        True,
        "over_budget",
    )
    assert len(info["tool_calls"]) == 2
    after = env.step(ANSWER)
    assert (after[1], after[2], after[3]["finish"]) == (0.0, True, "over_budget")
    assert env.navigation.answer == ""


def test_nothing_usable_after_the_budget_is_no_answer(known: Memory) -> None:
    env = begun(known, budget=1)
    env.step("")
    _, reward, done, info = env.step("")
    assert (reward, done, info["finish"]) == (-1.0, True, "no_answer")


def test_a_budget_of_zero_leaves_the_answer_alone(known: Memory) -> None:
    env = begun(known, budget=0)
    assert env.step(ANSWER)[3]["finish"] == "answered"
    env.reset(SEAT)
    assert env.step(LOOK)[3]["finish"] == "over_budget"


def test_calls_of_one_turn_share_it_and_are_bounded(known: Memory) -> None:
    env = begun(known)
    calls = [
        call("search_records", {"query": f"seat {n}"}, call_id="same")
        for n in range(99)
    ]
    seen, *_ = env.step(asking(*calls))
    assert (len(seen["messages"]), seen["turns_left"]) == (MAX_CALLS, 3)
    ids = [one["tool_call_id"] for one in seen["messages"]]
    assert len(set(ids)) == MAX_CALLS
    asked = env.navigation.messages[2]["tool_calls"]
    assert [one["id"] for one in asked] == ids  # every call has its answer


def test_text_of_content_blocks_is_read(known: Memory) -> None:
    blocks = [
        {"type": "text", "text": json.dumps(ANSWER)},
        {"type": "image", "url": "x"},
        None,
    ]
    assert begun(known).step({"content": blocks})[1] == 1.0


def test_reset_begins_anew_and_another_user_is_another_memory(known: Memory) -> None:
    env = begun(known)
    env.step(LOOK)
    first = env.reset(
        {"user_id": "bob", "question": "Which seat?", "answers": ["window"]}
    )
    assert (first["turns_left"], first["shown"]) == (4, [])
    seen, *_ = env.step(LOOK)
    assert "window" in seen["messages"][0]["content"]
    assert set(seen["shown"]) == {"b1"}


def test_a_user_without_memory_is_answered_too(known: Memory) -> None:
    env = NavigationEnv(known)
    env.reset({"user_id": "nobody", "question": "Which seat?"})
    seen, *_ = env.step(LOOK)
    assert "Nothing was found" in seen["messages"][0]["content"]
    assert env.step("I do not know.")[1] == -1.0  # no JSON


def test_observations_do_not_change_what_is_kept(known: Memory) -> None:
    env = NavigationEnv(known)
    first = env.reset(SEAT)
    first["messages"][0]["content"] = "Do as you like."
    first["messages"].clear()
    assert "memory" in env.navigation.messages[0]["content"]
    assert len(env.navigation.messages) == 2


@pytest.mark.parametrize(
    ("item", "why"),
    [
        ({}, "user_id"),
        ({"user_id": "ana", "question": "  "}, "question"),
        ({"user_id": "ana", "question": "q", "answer": "x"}, "answer"),
        (None, "Not a question item"),
    ],
)
def test_an_unusable_item_is_refused(known: Memory, item: Any, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        NavigationEnv(known).reset(item)


def test_mistakes_of_the_caller_are_errors(known: Memory, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="Call reset first"):
        NavigationEnv(known).step(ANSWER)
    for budget in (-1, 51, True, "4", None):
        with pytest.raises(InvalidInputError, match="budget"):
            NavigationEnv(known, budget=budget)  # type: ignore[arg-type]
    with Memory(tmp_path / "other", embeddings="hash") as closing:
        env = begun(closing)
    with pytest.raises(ClosedMemoryError):
        env.step(LOOK)


def test_a_tool_that_fails_is_told_and_noted(
    known: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = begun(known)

    def broken(*_: Any, **__: Any) -> Any:
        raise ConnectionError("the index is out")

    monkeypatch.setattr("langmem_graph.memory.UserMemory.search_conversation", broken)
    seen, _, done, info = env.step(LOOK)
    assert "cannot be read right now" in seen["messages"][0]["content"]
    assert not done
    assert info["tool_calls"][0]["layer"] is None
    assert "cannot be read" in info["problems"][0]


def test_the_environment_offers_the_five_reading_tools(known: Memory) -> None:
    tools = NavigationEnv(known).tools
    assert tools == navigation_tools()
    assert [tool["function"]["name"] for tool in tools] == [
        *(
            "get_conversation",
            "get_records",
            "read_file",
            "search_conversation",
            "search_records",
        )
    ]
    for tool in tools:
        about = tool["function"]
        assert about["description"]
        assert all(
            one["description"] for one in about["parameters"]["properties"].values()
        )
        assert about["parameters"]["required"] == list(
            about["parameters"]["properties"]
        )


def test_the_rubric_is_the_one_given(known: Memory) -> None:
    env = NavigationEnv(
        known, rubric=Rubric(judge=lambda item, answer: False, usage=True)
    )
    env.reset(SEAT)
    assert env.step(ANSWER)[1] == -1.0  # wrong, and did not look
    env.reset(SUM)
    assert env.step(ANSWER)[1] == -0.5  # wrong, but had no need to look


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner)
    ),
    max_leaves=12,
)
names = (
    st.sampled_from([tool["function"]["name"] for tool in navigation_tools()])
    | st.text()
)
ids = st.lists(
    st.sampled_from(["m1", "m2", "b1", "r1", "r2", "rb", "?"]) | st.text(), max_size=30
)
arguments = (
    st.fixed_dictionaries(
        {"query": st.text(max_size=60) | st.sampled_from(["seat", "bees"])}
    )
    | st.fixed_dictionaries({"message_ids": ids})
    | st.fixed_dictionaries({"record_ids": ids})
    | st.fixed_dictionaries(
        {"name": st.sampled_from(["index.md", "topics/travel.md", "x"])}
    )
)
given_arguments = arguments | arguments.map(json.dumps) | json_like | st.text()
calls = (
    st.builds(call, names, given_arguments, st.none() | st.text(max_size=9)) | json_like
)
actions = (
    st.just(LOOK)
    | st.just("")
    | st.builds(lambda many: asking(*many), st.lists(calls, max_size=8))
    | st.builds(
        lambda name, given: {"name": name, "arguments": given}, names, given_arguments
    )
    | json_like
    | st.binary(max_size=5)
    | st.text(max_size=80)
    | st.just(ANSWER)
)


@settings(
    max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck)
)
@given(taken=st.lists(actions, min_size=1, max_size=8), budget=st.integers(0, 4))
def test_any_actions_are_answered_within_the_budget(
    known: Memory, taken: list[Any], budget: int
) -> None:
    env = NavigationEnv(known, budget=budget, rubric=Rubric(evidence=0.4))
    seen = env.reset(SEAT)
    ended, left = False, budget
    for action in taken:
        seen, reward, done, info = env.step(action)
        plain = json.dumps([seen, reward, done, info], allow_nan=False)
        plain.encode("utf-8")
        assert set(seen["shown"]) <= OF_ANA
        assert "window" not in plain
        assert 0 <= seen["turns_left"] <= left
        # what does not end it costs a turn
        assert done or seen["turns_left"] == left - 1
        assert not ended or (done, reward) == (True, 0.0)
        assert done == (info["finish"] != "unfinished")
        ended, left = done, seen["turns_left"]
    walked = env.navigation
    assert walked.turns == budget - left <= budget
    assert all(1 <= use.turn <= walked.turns for use in walked.tool_calls)
    assert walked.shown == set(seen["shown"])
    walked.model_dump_json()
    asked = [c["id"] for one in walked.messages for c in one.get("tool_calls", [])]
    answered = [one["tool_call_id"] for one in walked.messages if one["role"] == "tool"]
    assert asked[: len(answered)] == answered
