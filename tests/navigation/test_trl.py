"""The environment for TRL's GRPOTrainer: its tools, its rollouts, and one real training."""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory
from langmem_graph.navigation.actions import navigation_tools
from langmem_graph.navigation.reward import (
    Rubric,
    navigation_metrics,
    read_trajectories,
    trajectory,
    write_trajectories,
)
from langmem_graph.navigation.trl import (
    TrlEnvironment,
    trl_environment,
    trl_navigation,
    trl_reward,
    trl_rows,
)
from tests.support.navigation import ANSWER, OF_ANA, SEAT, SUM, fill


@pytest.fixture
def known(memory: Memory) -> Memory:
    return fill(memory)


def calling(*calls: tuple[str, Any]) -> dict[str, Any]:
    """An assistant's message as the trainer parses it: no ids, arguments as data."""
    made = [
        {"type": "function", "function": {"name": name, "arguments": arguments}}
        for name, arguments in calls
    ]
    return {"role": "assistant", "content": "", "tool_calls": made}


def answering(text: str | None = json.dumps(ANSWER)) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def rollout(memory: Memory, *turns: dict[str, Any], item: Any = SEAT) -> Any:
    """Does with the environment what the trainer does."""
    environment = trl_environment(memory)()
    (row,) = trl_rows([item])
    assert environment.reset(**row) is None
    completion: list[dict[str, Any]] = []
    for message in turns:
        completion.append(message)
        for call in message.get("tool_calls", [])[
            : 99 if message is not turns[-1] else 0
        ]:
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            try:
                text = getattr(environment, name)(**arguments)
            except Exception as error:  # noqa: BLE001  # as the trainer does
                text = str({"error": str(error)})
            completion.append({"role": "tool", "name": name, "content": text})
    return environment, row["prompt"], completion


def test_the_tools_are_those_of_the_catalogue() -> None:
    public = [
        name
        for name, _ in inspect.getmembers(TrlEnvironment, inspect.isfunction)
        if not name.startswith("_") and name != "reset"
    ]
    about = {tool["function"]["name"]: tool["function"] for tool in navigation_tools()}
    assert public == list(about)  # in this order they stand in the prompt
    for name in public:
        method = getattr(TrlEnvironment, name)
        fields = about[name]["parameters"]["properties"]
        assert list(inspect.signature(method).parameters)[1:] == list(fields)
        said, _, arguments = inspect.getdoc(method).partition("\n\nArgs:\n")
        assert said == about[name]["description"]
        for field, schema in fields.items():
            assert f"{field}: {schema['description']}" in arguments


def test_a_rollout_is_a_navigation_like_any_other(
    known: Memory, tmp_path: Path
) -> None:
    turns = [
        calling(
            ("search_records", {"query": "seat"}), ("read_file", {"name": "index.md"})
        ),
        calling(("get_conversation", {"message_ids": ["m1"]})),
        answering(),
    ]
    environment, prompt, completion = rollout(known, *turns)
    item, done = trl_navigation(environment, prompt, completion)
    assert item == SEAT
    assert (done.answer, done.finish, done.turns) == ("An aisle seat.", "answered", 2)
    assert [(use.turn, use.layer) for use in done.tool_calls] == [
        *((1, "records"), (1, "topics"), (2, "messages"))
    ]
    assert "m1" in done.shown <= OF_ANA
    assert trl_reward()([prompt], [completion], [environment], item=["…"]) == [1.0]
    assert navigation_metrics([done], [item]).multi_level == 1.0
    asked = [call["id"] for one in done.messages for call in one.get("tool_calls", [])]
    told = [one["tool_call_id"] for one in done.messages if one["role"] == "tool"]
    assert asked == told
    assert len(set(asked)) == 3
    write_trajectories(tmp_path / "t.jsonl", [trajectory(done, item)])
    (read,) = read_trajectories(tmp_path / "t.jsonl")
    (first, _) = read.messages[2]["tool_calls"]
    assert first["function"] == {
        "name": "search_records",
        "arguments": '{"query": "seat"}',
    }


@pytest.mark.parametrize(
    ("turns", "finish", "reward"),
    [
        ([answering("I guess the aisle.")], "answered", -1.0),  # no JSON
        ([answering(None)], "no_answer", -1.0),
        ([answering(" ")], "no_answer", -1.0),
        ([answering('{"answer": "window"}')], "answered", -0.5),
        ([calling(("search_records", {"query": "seat"}))], "over_budget", -1.0),
    ],
)
def test_rollouts_that_end_badly(
    known: Memory, turns: list[Any], finish: str, reward: float
) -> None:
    environment, prompt, completion = rollout(known, *turns)
    _, done = trl_navigation(environment, prompt, completion)
    assert (done.finish, done.turns, done.tool_calls) == (finish, 0, [])
    assert trl_reward()([prompt], [completion], [environment]) == [reward]


def test_a_rollout_that_is_cut_off_behind_an_answered_call_has_taken_that_turn(
    known: Memory,
) -> None:
    environment, prompt, completion = rollout(
        known, calling(("search_records", {"query": "seat"})), answering()
    )
    _, done = trl_navigation(environment, prompt, completion[:-1])
    assert (done.finish, done.turns, len(done.tool_calls)) == ("over_budget", 1, 1)


def test_calls_that_fail_are_calls(known: Memory) -> None:
    bad = [
        ("search_records", {"text": "seat"}),
        ("delete", {}),
        ("read_file", {"name": 7}),
    ]
    environment, prompt, completion = rollout(
        known,
        calling(*bad),
        calling(("search_records", {"query": "seat"})),
        answering(),
    )
    _, done = trl_navigation(environment, prompt, completion)
    assert [use.turn for use in done.tool_calls] == [1, 1, 1, 2]
    assert [use.error is None for use in done.tool_calls] == [False, False, False, True]
    assert "do not fit" in str(done.tool_calls[2].error)


def test_each_rollout_is_its_own_and_reset_forgets_the_last(known: Memory) -> None:
    one, prompt, completion = rollout(
        known, calling(("search_records", {"query": "seat"})), answering()
    )
    other, *_ = rollout(known, answering("4"), item=SUM)
    rewards = trl_reward(Rubric(judge=lambda item, answer: item == SEAT))(
        [prompt] * 2, [completion] * 2, [one, other]
    )
    assert rewards == [1.0, -0.5]
    one.reset(**trl_rows([SUM])[0])
    assert trl_navigation(one, prompt, [answering("4")])[1].tool_calls == []


def test_rows_say_the_budget_and_are_checked(known: Memory) -> None:
    (row,) = trl_rows([SEAT], budget=2)
    assert "2 turns" in row["prompt"][0]["content"]
    assert row["prompt"][1] == {"role": "user", "content": SEAT.question}
    with pytest.raises(InvalidInputError, match="user_id"):
        trl_rows([{"question": "Which seat?"}])
    with pytest.raises(InvalidInputError, match="budget"):
        trl_rows([SEAT], budget=-1)
    with pytest.raises(InvalidInputError, match="Call reset first"):
        TrlEnvironment(known).search_records("seat")


@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore")  # the trainers' own
def test_grpo_trains_a_tiny_model_on_walks(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("torch", "datasets", "trl"):
        pytest.importorskip(package, reason=f"{package} comes with the extra [train]")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import get_json_schema

    from examples import train_navigator as example

    for tool in navigation_tools():  # a model is trained with what it is later shown
        method = getattr(TrlEnvironment(memory), tool["function"]["name"])
        assert json.dumps(get_json_schema(method)) == json.dumps(tool)
    example.fill(memory)
    shown = example.demonstrations(memory)
    assert [one.reward for one in shown] == [1.0, -0.5] * 4
    looked_up = shown[::2]
    tiny = example.tiny_model(looked_up, 40, str(tmp_path))
    trainer, rollouts = example.train(
        tiny, memory, str(tmp_path), steps=2, learning_rate=1e-4
    )
    assert [tool.__name__ for tool in trainer.tools] == [
        tool["function"]["name"] for tool in navigation_tools()
    ]
    assert len(rollouts) == 2 * 8
    walks = [walk for _, walk in rollouts]
    assert all(walk.messages[0]["role"] == "system" for walk in walks)
    looked = [use for walk in walks for use in walk.tool_calls]
    assert any(use.message_ids for use in looked)  # the trainer has called memory
    rewards = [
        entry["reward"] for entry in trainer.state.log_history if "reward" in entry
    ]
    own = [example.trajectory(walk, item).reward for item, walk in rollouts]
    assert rewards
    assert all(-1 <= one <= 1 for one in rewards)
    assert sum(own) / len(own) == pytest.approx(sum(rewards) / len(rewards), abs=1e-4)
    before = AutoModelForCausalLM.from_pretrained(tiny).state_dict()
    after = trainer.model.state_dict()
    assert any(not torch.equal(before[name], after[name].cpu()) for name in before)
