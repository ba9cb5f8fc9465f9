"""Answers from the facts that were shown."""

from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from langmem_graph.graphs.recall_graph import create_recall_graph
from tests.support.goals import ASKED, alias
from tests.support.reasoning import ANA, calls
from tests.support.recalled import SAID, good


def test_an_answer_uses_shown_facts(open_memory: Any) -> None:
    graph = create_recall_graph(open_memory(good()), answer=True)
    done = graph.invoke({"messages": [HumanMessage(ASKED)]}, ANA)
    assert done["messages"][-1].text == "The ceramic lamp."
    assert done["memory_recall"]["answer_facts"]


@pytest.mark.parametrize(
    "said",
    [
        {"known": True, "answer": "A scarf!", "facts": []},
        {"known": True, "answer": "A scarf!", "facts": ["f99"]},
        {"known": False},
    ],
)
def test_an_answer_from_nowhere_is_not_given(open_memory: Any, said: Any) -> None:
    model = good(GroundedAnswer=said, Unification={})
    graph = create_recall_graph(open_memory(model), answer=True)
    done = graph.invoke({"messages": [HumanMessage(ASKED)]}, ANA)
    assert done["messages"][-1].text == (
        "I don't know: memory does not say (w:person), (g:gift)."
    )


def test_an_answer_that_cannot_be_used_is_said_to_be_that(open_memory: Any) -> None:
    """Memory may well say it: nobody has looked."""
    cases: list[dict[str, Any]] = [
        {"Unification": {"bindings": 7}, "GroundedAnswer": {"known": False}},
        {"GroundedAnswer": 7},
    ]
    for unusable in cases:
        graph = create_recall_graph(open_memory(good(**unusable)), answer=True)
        done = graph.invoke({"messages": [HumanMessage(ASKED)]}, ANA)
        said = "I don't know: an answer of the model could not be used"
        assert done["messages"][-1].text.startswith(said)
        assert "Not found in memory" not in done["memory_context"]
        assert done["memory_recall"]["reasoning"]["unusable"] is (
            "Unification" in unusable
        )


def test_facts_that_disagree_are_both_shown_and_no_model_answers(
    open_memory: Any,
) -> None:
    def disagree(prompt: str) -> dict[str, Any]:
        wedding, lamp = alias(prompt, SAID["m3"]), alias(prompt, SAID["m2"])
        return {
            "bindings": [
                {"variable": "w", "entity": "Lena", "facts": [wedding]},
                {"variable": "w", "entity": "Tom", "facts": [lamp]},
            ],
            "disagree": ["w"],
        }

    model = good(Unification=disagree)
    graph = create_recall_graph(open_memory(model), answer=True)
    done = graph.invoke({"messages": [HumanMessage(ASKED)]}, ANA)
    assert done["memory_recall"]["reasoning"]["status"] == "conflict"
    text = done["messages"][-1].text
    assert text.startswith("I don't know: what I remember disagrees.")
    assert SAID["m3"] in text
    assert SAID["m2"] in text
    assert "GroundedAnswer" not in calls(model)
    lines = done["memory_context"].splitlines()
    assert lines[4] == '- Facts disagree about "w": "Lena", "Tom"'
