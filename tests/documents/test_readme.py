"""What the README shows is what happens."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from langmem_graph.memory import Memory
from langmem_graph.testing import ScriptedChatModel
from tests.conftest import said
from tests.support.chat_server import chat_server
from tests.support.marks import needs_model

REPOSITORY = Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


BLOCKS = re.findall(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", README, re.DOTALL)


def ran(block: str, where: Path, **environment: str) -> str:
    """What a block prints, saved as a file and run as it stands."""
    (where / "first.py").write_text(block, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "first.py"],
        cwd=where,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    ).stdout


@needs_model
@pytest.mark.enable_socket
def test_the_blocks_run_as_they_stand(tmp_path: Path) -> None:
    """The first prints what is shown; the second asks a model, here one on this machine."""
    (first, shown), (second, _) = BLOCKS
    undated = re.compile(r"\d{4}-\d\d-\d\d")
    assert undated.sub("", ran(first, tmp_path)) == undated.sub("", shown)
    requests: list[Any] = []
    with chat_server(requests) as url:
        ran(second, tmp_path, OPENAI_API_KEY="none", OPENAI_BASE_URL=url)
    assert "I always take an aisle seat." in str(requests[0])


def test_the_readme_is_short_and_its_links_and_picture_exist() -> None:
    assert len(README.splitlines()) <= 180
    targets = re.findall(r"\]\(([^)#]+)", README)
    assert "docs/images/inspector-layers.png" in targets
    assert [target for target in targets if not (REPOSITORY / target).exists()] == []


def test_the_commands_of_the_readme_exist() -> None:
    targets = set(re.findall(r"^make (\w+)", README, re.MULTILINE))
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    assert targets
    assert all(f"\n{target}:" in makefile for target in targets)


@needs_model
@pytest.mark.parametrize("title", ["reasoning", "any retriever"])
def test_reasoning_works_as_its_page_shows(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    from tests.support.goals import search
    from tests.support.recalled import acting

    page = (REPOSITORY / "docs/reasoning.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"```python\n# (.+?)\n(.*?)```", page, re.DOTALL))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"model": acting(), "retriever": search}
    exec(blocks[title], names)
    printed = capsys.readouterr().out
    if title == "reasoning":
        names["memory"].close()
        assert printed == "\n"  # nothing is remembered yet
    else:
        assert printed == "None {}\n"


@needs_model
@pytest.mark.parametrize(
    ("page", "way"), [("docs/acting.md", "library"), ("docs/acting.md", "agent")]
)
def test_tool_calls_are_filled_as_shown(
    page: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    from examples import travel_assistant as example

    text = (REPOSITORY / page).read_text(encoding="utf-8")
    blocks = dict(re.findall(r"```python\n# (.+?)\n(.*?)```", text, re.DOTALL))
    monkeypatch.chdir(tmp_path)
    model = ScriptedChatModel(answers=example.SCRIPTED)
    names: dict[str, Any] = {
        "model": model,
        "agent_model": example.scripted_agent(seat=None),
        "book_flight": example.book_flight,
    }
    with Memory("./memory") as memory:
        memory.user("alice").add([said(example.SAID[0][1], id="m0")], session_id="s")
    if way == "library":
        exec(blocks["ground"], names)
        shown = capsys.readouterr().out
        assert "'seat': '12A'" in shown
        assert "['m0']" in shown
        if "chosen" in blocks:
            jo = {"guests": [{"name": "Jo", "diet": "vegan"}]}
            quote = {"path": "guests.0.name", "fact": "f0", "quote": "Jo"}
            model.answers["ToolFill"] = {"arguments": jo, "sources": [quote], "missing": []}
            exec(blocks["chosen"], names)
            assert capsys.readouterr().out == f"{jo}\ninferred\n"
    else:
        exec(blocks["ground_tools"], names)
        asked = {"messages": [("user", example.REQUEST)]}
        done = names["graph"].invoke(asked, {"configurable": {"user_id": "alice"}})
        assert "seat 12A" in done["messages"][-2].text
    names["memory"].close()
