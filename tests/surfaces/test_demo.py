"""The demo replays recorded answers, and says so where they no longer belong to its prompts."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, SystemMessage

from langmem_graph.llm.answer_schemas import GoalPlan
from langmem_graph.testing import ScriptedChatModel
from tests.support.marks import needs_model

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The example, as `python examples/demo.py` sees it."""
    monkeypatch.syspath_prepend(REPOSITORY / "examples")
    monkeypatch.setattr(sys, "argv", ["demo.py"])
    import demo

    return demo


@pytest.fixture
def recorded(demo: ModuleType) -> Any:
    import recorded_model

    return recorded_model


@needs_model
def test_the_demo_replays_what_its_prompts_were_answered(
    demo: ModuleType, capsys: Any
) -> None:
    """A change of what prompts show fails here: record the demo again, see its --help."""
    demo.main()
    first, *_ = printed = capsys.readouterr().out.splitlines()
    assert "answers are recorded: claude gave them on 20" in first
    text = " ".join(" ".join(printed).split())
    for part in (
        'changed: "The user lives in Porto." held until 2026-06-01: you said "since the first',
        'no longer true since 2026-06-01: now "Since 1 June 2026 the user lives in Berlin."',
        "model: You live in Berlin, since 1 June 2026; before that you lived in Porto.",
        'destination: Łódź, from "Łódź" (this request)',
        'seat: 12A, from "12A" (march-2)',
        'card_number: NW-4471-0093, from "NW-4471-0093" (march-2)',
        "passport_number: missing",
        '│ Check this before acting on the request: │ - "Sago palms are poisonous to dogs',
        '[march-1]: "The user\'s puppy Miso is teething and chews plants."',
        "- The user lives in Porto. (march-1, until 2026-06-01)",
        "- Since 1 June 2026 the user lives in Berlin. (june-1)",
    ):
        assert part in text, part
    assert len(printed) <= 70  # read in two minutes


@needs_model
def test_a_prompt_that_was_not_recorded_ends_the_demo(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Memory itself goes on where its model fails."""
    first, (at, _) = demo.MARCH
    monkeypatch.setattr(demo, "MARCH", [first, (at, "I keep bees.")])
    with pytest.raises(
        SystemExit, match="Record it again: python examples/demo"
    ) as ended:
        demo.main()
    assert "Extraction:" in str(ended.value)
    assert "I keep bees." in str(ended.value)
    assert "2. A tool call" not in capsys.readouterr().out


def test_answers_are_recorded_and_found_under_other_aliases_and_rules(
    recorded: Any, tmp_path: Path
) -> None:
    answers = [{"facts": ["f1"], "sure": True}, {"facts": []}]
    asked = ScriptedChatModel(script=["Yes."], answers={"GoalPlan": answers})
    model = recorded.RecordedChatModel(file=tmp_path / "answers.json", asks=asked)
    lines = [
        'f1: 2026 "I live in Porto."',
        'f2: 2026 "I keep bees."',
        "Request: Where?",
    ]
    for _ in range(2):  # the same prompt is asked once
        model.with_structured_output(GoalPlan).invoke(prompt("Rules.", *lines))
    assert model.invoke("Do you hear me?").text == "Yes."
    model.save("ann")
    assert len(asked.asked) == 1

    replayed = recorded.RecordedChatModel(file=tmp_path / "answers.json")
    assert replayed.model_name == "ann"
    assert replayed.invoke("Do you hear me?").text == "Yes."
    ask = replayed.with_structured_output(GoalPlan, include_raw=True)
    other = [
        'f7: 2027 "I keep bees."',
        'f8: 2027 "I live in Porto."',
        "Request: Where?",
    ]
    found = ask.invoke(prompt("Other rules.", *other))
    assert found["parsed"] == GoalPlan(facts=["f8"], sure=True)
    assert json.loads(found["raw"].text)["facts"] == ["f8"]
    assert replayed.changed == {"GoalPlan"}
    replayed.check()
    # another request, one more
    for part in ("Request: When?", 'f9: 2027-01-03 "I keep ducks."'):
        with pytest.raises(recorded.UnknownPromptError):
            ask.invoke(prompt("Rules.", *other[:2], part))
    with pytest.raises(recorded.UnknownPromptError, match="Request: When"):
        replayed.check()


def test_a_model_that_fails_leaves_no_recording(recorded: Any, tmp_path: Path) -> None:
    asked = ScriptedChatModel(answers={"GoalPlan": ConnectionError("away")})
    model = recorded.RecordedChatModel(file=tmp_path / "answers.json", asks=asked)
    with pytest.raises(ConnectionError):
        model.with_structured_output(GoalPlan).invoke(
            prompt("Rules.", "Request: Where?")
        )
    with pytest.raises(recorded.UnknownPromptError, match="nothing is recorded"):
        model.check()


def prompt(rules: str, *lines: str) -> list[Any]:
    return [SystemMessage(rules), HumanMessage("\n".join(lines))]


def test_recording_needs_the_name_of_who_answers(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    monkeypatch.setattr(sys, "argv", ["demo.py", "--record", "--queue", str(tmp_path)])
    with pytest.raises(SystemExit):
        demo.main()
    assert "--by" in capsys.readouterr().err
