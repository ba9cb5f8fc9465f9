"""`langmem-graph chat`, its models, and the examples, as a user runs them."""

import runpy
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from typer.testing import CliRunner

from langmem_graph.cli import commands
from langmem_graph.errors import ChatModelError
from langmem_graph.llm import chat_models
from langmem_graph.llm.chat_models import load_chat_model
from langmem_graph.memory import Memory
from langmem_graph.testing import ScriptedChatModel, recite
from tests.conftest import said
from tests.support.marks import needs_model

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGMEM_GRAPH_DIR", str(tmp_path / "memory"))
    monkeypatch.setenv("LANGMEM_GRAPH_EMBEDDINGS", "hash")
    monkeypatch.setenv("COLUMNS", "160")
    for name in ("OPENAI_API_KEY", "LANGMEM_GRAPH_USER", "LANGMEM_GRAPH_CHROMA"):
        monkeypatch.delenv(name, raising=False)


def chat(*lines: str, code: int = 0) -> str:
    done = CliRunner().invoke(commands.app, ["chat"], input="\n".join(lines))
    assert done.exit_code == code, done.output
    return done.output


def kept() -> list[str]:
    with Memory.from_environment() as memory:
        return [m["content"] for m in memory.user("me").export()]


def test_without_a_model_it_says_so_and_shows_what_it_would_recall() -> None:
    output = chat(
        "I always take an aisle seat.", "/new", "Which seat?", "/why", "/quit", "unread"
    )
    assert "No language model" in output
    assert "OPENAI_API_KEY" in output
    before, after = output.split("A new conversation")
    assert "Nothing to recall." in before
    assert after.count('"I always take an aisle seat."') == 1  # the recall
    assert after.count("I always take an aisle seat.") == 2  # and /why
    assert kept() == ["I always take an aisle seat.", "Which seat?"]
    assert "I always take an aisle seat." in chat("Seat?")  # another run remembers


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> ScriptedChatModel:
    model = ScriptedChatModel()
    monkeypatch.setattr(chat_models, "load_chat_model", lambda *_, **__: model)
    return model


def test_with_a_model_it_talks_and_remembers(scripted: ScriptedChatModel) -> None:
    scripted.script = ["Noted, an aisle seat.", "The \x1b[31maisle."]
    output = chat(
        "I always take an aisle seat.", "/new", "", "Which seat?", "/nonsense"
    )
    assert "Noted, an aisle seat." in output
    assert "\x1b[31maisle" not in output
    assert "/why: what was recalled" in output
    system, shown, asked = scripted.requests[-1]
    assert system.type == "system"
    assert "I always take an aisle seat." in str(shown.content)
    assert asked.content == "Which seat?"
    assert len(kept()) == 4


def test_why_says_when_nothing_was_recalled(scripted: ScriptedChatModel) -> None:
    assert "Nothing was recalled." in chat("/why")


def test_a_failing_model_ends_its_turn_alone(scripted: ScriptedChatModel) -> None:
    scripted.script = [ConnectionError("server is out"), "Here again."]
    output = chat("My code is blue.", "Hello?")
    assert "did not answer: server is out" in output
    assert "Here again." in output
    assert kept() == ["My code is blue.", "Hello?", "Here again."]


def test_failing_memory_is_said(
    scripted: ScriptedChatModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise OSError("disk is gone")

    monkeypatch.setattr("langmem_graph.user_memory.add_messages.add_messages", broken)
    output = chat("Hello?")
    assert "memory_write: OSError: disk is gone" in output
    assert "ok" in output


# --- which model talks ---------------------------------------------------------------------------


def test_the_model_is_chosen_by_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_chat_model() is None
    with pytest.raises(ChatModelError, match="OPENAI_API_KEY"):
        load_chat_model("openai:gpt-4o-mini")
    with pytest.raises(ChatModelError, match="no-such-provider"):
        load_chat_model("no-such-provider:x")
    with pytest.raises(ChatModelError, match=r"127\.0\.0\.1:1/v1"):
        load_chat_model(base_url="http://127.0.0.1:1/v1")
    served = load_chat_model("mine", "http://127.0.0.1:1/v1", max_tokens=7)
    assert isinstance(served, ChatOpenAI)
    assert (served.model_name, served.max_tokens) == ("mine", 7)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    default = load_chat_model()
    assert isinstance(default, ChatOpenAI)
    assert default.model_name == "gpt-4o-mini"


def test_the_stand_in_recites_what_memory_gave_it(tmp_path: Path) -> None:
    model = ScriptedChatModel(script=recite)
    assert "nothing in memory" in model.invoke("hello").text
    with Memory(tmp_path / "m", embeddings="hash") as memory:
        user = memory.user("u")
        user.add(
            [said('I said "no"\nwalnuts', id="1", at="2025-03-01")], session_id="s"
        )
        shown = user.recall("walnuts").context
    answer = model.invoke([HumanMessage(shown), HumanMessage("nuts?")]).text
    assert answer == 'From memory, you said:\n- 2025-03-01: I said "no"\nwalnuts'


# --- examples ------------------------------------------------------------------------------------


def run_example(name: str, directory: Path) -> str:
    """What an example prints, run somewhere else than in the repository."""
    example = REPOSITORY / f"examples/{name}.py"
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as printed:
        patch.chdir(directory)
        patch.setattr(sys, "argv", [str(example)])
        runpy.run_path(str(example), run_name="__main__")
    assert not list(directory.iterdir())
    return printed.getvalue()


@needs_model
@pytest.mark.parametrize(
    ("example", "remembered"),
    [
        ("state_graph_chatbot", "I am vegan, and I cannot stand coriander."),
        ("agent_chatbot", "Our puppy Miso is teething and chews everything"),
    ],
)
def test_an_example_runs_offline(example: str, remembered: str, tmp_path: Path) -> None:
    last = run_example(example, tmp_path).split("---")[-1]
    assert remembered in last.split("bot:")[-1]


@needs_model
def test_the_puppy_comes_before_the_palm(tmp_path: Path) -> None:
    lines = run_example("puppy_and_palm", tmp_path).split("<memory>\n")[1].splitlines()
    assert lines[2] == "Check this before acting on the request:"
    assert "poisonous" in lines[3]
    assert lines[4] == (
        '  - 2025-03-04 18:20 user [m0]: "Our puppy Miso is teething and chews everything, above '
        'all plants."'
    )


@needs_model
def test_an_assistant_that_books_is_completed_and_checked(tmp_path: Path) -> None:
    _, alone, completed, guessed = run_example("travel_assistant", tmp_path).split(
        "\n--- "
    )
    assert "destination = 'Łódź': copied, the request\n" in alone
    assert "seat = '12A': copied, ['m0']\n" in alone
    assert "'seat'" not in completed
    assert "seat 12A, card NW-4471-0093" in completed
    assert "Note from memory" not in completed
    assert "seat 30C, card NW-4471-0093" in guessed
    assert 'seat was "30C", but memory says "12A" ("12A", m0)' in guessed


@needs_model
def test_a_companion_knows_what_is_next_and_what_collides(tmp_path: Path) -> None:
    _, vague, proposal = run_example("project_companion", tmp_path).split(
        "--- a new thread\n"
    )
    order = [
        "Next on",
        "2040-03-14 10:00",
        "2040-03-15 15:00",
        "Open projects",
        "Profile:",
    ]
    places = [vague.index(title) for title in order]
    assert places == sorted(places)
    assert "Check this before acting" not in vague
    checked = proposal.split("Check this before acting on the request:\n")[1]
    assert "Thu 2040-03-15 15:00 to 16:00 UTC [m3]" in checked.splitlines()[0]
    assert "Open projects" not in proposal


@needs_model
def test_a_catalogue_and_what_a_customer_said_are_recalled_together(
    tmp_path: Path,
) -> None:
    _, first, ana, bob = run_example("shop_catalogue", tmp_path).split("--- ")
    assert "ana, may" in ana
    assert (
        "(shared room catalogue): The Trail shoe runs small: order one size up." in ana
    )
    assert ": My size is 42, and I wear vegan shoes." in ana
    assert "The Trail shoe runs small" in bob
    assert "vegan shoes" not in bob
    assert "runs small" not in first.split("bot:")[0]


@needs_model
def test_a_member_sees_the_teams_decisions_and_a_stranger_nothing(
    tmp_path: Path,
) -> None:
    _, ana, eve = run_example("team_decisions", tmp_path).split("--- ")
    assert " bob (shared room team-42) [" in ana
    assert "second reviewer" in ana
    assert "on holiday" in ana
    assert "ok []" in ana
    assert eve.splitlines()[1:] == [
        "nothing",
        "degraded [\"the shared room 'team-42' was left out: authorize said no.\"]",
    ]
