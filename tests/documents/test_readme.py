"""What the README shows is what happens."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from langmem_graph.memory import Memory
from langmem_graph.testing import ScriptedChatModel
from tests.conftest import said
from tests.support.graphs import WAYS, run
from tests.support.marks import needs_model

REPOSITORY = Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def example(name: str) -> str:
    """The Python block that begins with this comment."""
    blocks = re.findall(r"```python\n# (.+?)\n(.*?)```", README, re.DOTALL)
    (code,) = [code for title, code in blocks if title == name]
    return str(code)


@needs_model
def test_the_library_example_runs_as_shown(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::UserWarning", "-c", example("library")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    first, *others = done.stdout.splitlines()
    assert first.startswith("['m1', 'm-")
    assert "I always take an aisle seat." in others[0]
    assert "<memory>" in done.stdout


class search_conversation(BaseModel):  # noqa: N801  # a scripted call of the tool
    query: str


SCRIPTS: dict[str, list[Any]] = {
    "StateGraph": ["Noted.", "Aisle."],
    "create_agent": ["Noted.", "Aisle."],
    "tools": ["Noted.", search_conversation(query="seat"), "Aisle."],
}


@needs_model
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("surface", SCRIPTS)
def test_an_integration_works_as_shown(
    surface: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"model": ScriptedChatModel(script=SCRIPTS[surface])}
    exec(example(surface), names)
    model, graph, memory = names["model"], names["graph"], names["memory"]
    with memory:
        if surface == "tools":  # they read; something else has written
            memory.user("alice").add(said("I always take an aisle seat."), session_id="s")
        exec(example("run"), names)
        end = run(graph, way, {"messages": [("user", "Which seat?")]}, names["config"])
        kept = len(memory.user("alice").export())
    assert end["messages"][-1].content == "Aisle."
    shown = "".join(str(message.content) for message in model.requests[-1])
    assert "I always take an aisle seat." in shown
    assert kept == {"StateGraph": 4, "create_agent": 4, "tools": 1}[surface]


def test_an_integration_is_five_lines_or_fewer_beside_imports() -> None:
    for surface in SCRIPTS:
        lines = [line for line in example(surface).splitlines() if not line.startswith("from ")]
        assert 0 < sum("emory" in line for line in lines) <= 5, surface


def test_the_commands_of_the_readme_exist() -> None:
    targets = set(re.findall(r"^make (\w+)", README, re.MULTILINE))
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    assert targets
    assert all(f"\n{target}:" in makefile for target in targets)


@needs_model
def test_the_readme_shows_what_the_example_prints() -> None:
    command, shown = re.findall(r"```\n\$ (python examples/.+?)\n(.*?)```", README, re.DOTALL)[0]
    printed = subprocess.run(
        [sys.executable, *command.split()[1:]],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    parts = map(re.escape, shown.split("…\n"))  # whole lines may be cut there
    assert re.fullmatch(r"(?:.*\n)*".join(parts), printed)
    assert "(here with a scripted model" in README.split(command)[0][-150:]


@needs_model
def test_tool_calls_are_completed_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from examples import travel_assistant as given

    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {
        "model": ScriptedChatModel(answers=given.SCRIPTED),
        "agent_model": given.scripted_agent(seat=None),
        "book_flight": given.book_flight,
    }
    with Memory("./memory") as memory:
        memory.user("alice").add([said(given.SAID[0][1], id="m0")], session_id="s")
    exec(example("ground_tools"), names)
    asked = {"messages": [("user", given.REQUEST)]}
    done = names["graph"].invoke(asked, {"configurable": {"user_id": "alice"}})
    assert "seat 12A" in done["messages"][-2].text
    names["memory"].close()
