"""The navigation environment in shared rooms: what its user may read then, and no more."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory
from langmem_graph.navigation import (
    NavigationEnv,
    arun_navigator,
    run_navigator,
    trl_environment,
    trl_navigation,
    trl_rows,
)
from langmem_graph.testing import ScriptedChatModel
from tests.conftest import said
from tests.support.navigation import ANSWER, SEAT

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("search_conversation", {"query": "seat"}),
    ("search_records", {"query": "seat"}),
    ("get_records", {"record_ids": ["r1"]}),
    ("get_conversation", {"message_ids": ["m1"]}),
    ("read_file", {"name": "profile.md"}),
]
MEMBERS: dict[str, set[str]] = {}
Shown = tuple[str, list[str]]
"""What the policy sees of memory, and the problems of the rollout."""


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Each of three rooms says whose seat it is, under the same ids."""
    MEMBERS.update(team={"ana", "bob"}, shop={"bob"})
    options: Any = {"authorize": lambda user, room, _: user in MEMBERS[room]}
    with Memory(tmp_path / "m", embeddings="hash", **options) as opened:
        for room in ("team", "shop"):
            fill(opened.shared(room, as_user="bob"), room)
        fill(opened.user("ana"), "user")
        yield opened


def fill(part: Any, whose: str) -> None:
    text = f"The seat of the {whose} is by the door."
    part.add(said(text, id="m1"), session_id="s")
    part.add_records(
        {"record_id": "r1", "text": f"R{text[1:]}", "source_message_ids": ["m1"]}
    )


def stepped(memory: Memory, shared: Sequence[str]) -> Shown:
    env = NavigationEnv(memory, budget=9, shared=shared)
    env.reset(SEAT)
    steps = [env.step({"name": name, "arguments": given}) for name, given in CALLS]
    assert steps[-1][3]["problems"] == env.navigation.problems
    return str(steps), env.navigation.problems


def walked(memory: Memory, shared: Sequence[str], is_async: bool = False) -> Shown:
    asked = [
        {"name": name, "args": given, "id": f"c{n}"}
        for n, (name, given) in enumerate(CALLS)
    ]
    model: Any = ScriptedChatModel(
        script=[AIMessage("", tool_calls=asked), json.dumps(ANSWER)]
    )
    given: Any = (model, memory.user("ana", shared=shared), SEAT.question)
    done = asyncio.run(arun_navigator(*given)) if is_async else run_navigator(*given)
    return str(model.requests[-1]), done.problems


def trained(memory: Memory, shared: Sequence[str]) -> Shown:
    environment = trl_environment(memory, shared=shared)()
    environment.reset(**trl_rows([SEAT])[0])
    shown = str([getattr(environment, name)(**given) for name, given in CALLS])
    return shown, trl_navigation(environment, [], [])[1].problems


WAYS: Any = {
    "step": stepped,
    "walk": walked,
    "awalk": lambda memory, shared: walked(memory, shared, True),
    "train": trained,
}


@pytest.mark.parametrize("way", WAYS)
def test_rooms_that_the_user_may_read_are_shown_and_others_are_named(
    memory: Memory, way: str
) -> None:
    shown, problems = WAYS[way](memory, ["team", "shop"])
    for form in ("The", "Rhe"):
        assert f"{form} seat of the user" in shown
        assert f"{form} seat of the team" in shown
    assert "(shared room team" in shown
    assert "seat of the shop" not in shown
    assert problems == ["the shared room 'shop' was left out: authorize said no."]
    alone, problems = WAYS[way](memory, [])
    assert "seat of the team" not in alone
    assert problems == []
    with pytest.raises(
        InvalidInputError, match="shared must be a list of rooms' names"
    ):
        WAYS[way](memory, {"team": 1})


def test_the_right_is_asked_for_at_every_call(memory: Memory) -> None:
    env = NavigationEnv(memory, shared=["team"])
    env.reset(SEAT)
    look = {"name": "get_conversation", "arguments": {"message_ids": ["m1"]}}
    assert "seat of the team" in str(env.step(look))
    MEMBERS["team"].clear()
    seen, _, _, info = env.step(look)
    assert "seat of the user" in str(seen)
    assert "seat of the team" not in str(seen)
    assert info["problems"] == [
        "the shared room 'team' was left out: authorize said no."
    ]
    env.reset(SEAT)
    assert env.navigation.problems == []  # another rollout
