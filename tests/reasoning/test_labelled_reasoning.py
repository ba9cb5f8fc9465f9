"""Reasoning sees what no longer holds, with its label, and prefers what holds."""

from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from langmem_graph.graphs.recall_graph import create_recall_graph
from langmem_graph.results import Fact
from langmem_graph.retrieval.facts import decide
from langmem_graph.schemas import Label
from tests.support.goals import ASKED
from tests.support.homes import told
from tests.support.reasoning import ANA
from tests.support.recalled import good

LAMP, SCARF = "Lena liked the ceramic lamp.", "Lena likes the red scarf better."
LIKES = {"subject": "lena", "attribute": "gift"}
REPLACED = f'(no longer true since 2025-04-01: now "{SCARF}")'


def changed_her_mind(memory: Any) -> None:
    ana = memory.user("ana")
    row = {"text": LAMP, "source_message_ids": ["m4"], "record_id": "lamp", **LIKES}
    assert ana.add_records(row).stored == ["lamp"]
    told(ana, SCARF, "m6", "scarf", "2025-04-01", supersedes=["lamp"], **LIKES)


def fact_of(prompt: str, text: str) -> str:
    """The alias of the first fact with this text, whatever stands before it."""
    lines = (
        one for one in prompt.splitlines() if one.startswith("f") and one.endswith(text)
    )
    return next(lines).split(":")[0]


def both(prompt: str) -> dict[str, Any]:
    """Binds the gift to what she liked and to what she likes."""
    lamp, scarf = fact_of(prompt, f'"{LAMP}"'), fact_of(prompt, f'"{SCARF}"')
    bindings = [("the ceramic lamp", lamp), ("the red scarf", scarf)]
    rows = [{"variable": "g", "entity": e, "facts": [f]} for e, f in bindings]
    return {"bindings": rows, "disagree": ["g"]}


def test_every_prompt_and_the_context_show_the_label(open_memory: Any) -> None:
    model = good(Unification=both)
    memory = open_memory(model)
    changed_her_mind(memory)
    recalled = memory.user("ana").recall(ASKED, mode="reason", at="2025-05-01")
    prompts = [(name, prompt) for name, prompt in model.asked if LAMP in prompt]
    assert {"GoalPlan", "Unification"} <= {name for name, _ in prompts}
    for _, prompt in prompts:
        assert prompt.count(LAMP) == prompt.count(REPLACED) == 1
    assert f'[m4] {REPLACED}: "{LAMP}"' in recalled.context
    assert recalled.context.count(LAMP) == 1
    shown = {fact.id: fact.outdated for fact in recalled.facts}
    assert shown["record:scarf"] is False
    assert [shown[own] for own in ("message:m4", "record:lamp") if own in shown] == [
        True
    ]
    assert [hit.outdated for hit in recalled.evidence if hit.message_id == "m4"] == [
        True
    ]
    assert recalled.reasoning is not None
    assert recalled.reasoning.bindings["g"] == "the red scarf"
    assert not recalled.reasoning.conflicts


def test_the_answer_step_sees_the_label(open_memory: Any) -> None:
    model = good(Unification={})
    memory = open_memory(model)
    changed_her_mind(memory)
    create_recall_graph(memory, answer=True).invoke(
        {"messages": [HumanMessage(ASKED)]}, ANA
    )
    (question,) = (prompt for name, prompt in model.asked if name == "GroundedAnswer")
    assert f'{REPLACED} "{LAMP}"' in question


def test_a_label_that_was_taken_back_meanwhile_is_not_shown(open_memory: Any) -> None:
    def forget_first(prompt: str) -> dict[str, Any]:
        memory.user("ana").forget(message="m6")
        return {}

    memory = open_memory(good(Unification=forget_first))
    changed_her_mind(memory)
    recalled = memory.user("ana").recall(ASKED, mode="reason", at="2025-05-01")
    assert LAMP in recalled.context
    assert "scarf" not in recalled.context
    assert "no longer" not in recalled.context
    assert not any(fact.labels for fact in recalled.facts)


def test_a_fact_that_was_superseded_meanwhile_proves_nothing(open_memory: Any) -> None:
    def change_first(prompt: str) -> dict[str, Any]:
        fact = fact_of(prompt, f'"{LAMP}"')
        told(
            memory.user("ana"), SCARF, "m6", "scarf", "2025-04-01", supersedes=["lamp"]
        )
        return {
            "bindings": [
                {"variable": "g", "entity": "the ceramic lamp", "facts": [fact]}
            ]
        }

    memory = open_memory(good(Unification=change_first))
    row = {"text": LAMP, "source_message_ids": ["m4"], "record_id": "lamp", **LIKES}
    memory.user("ana").add_records(row)
    recalled = memory.user("ana").recall(ASKED, mode="reason", at="2025-05-01")
    assert recalled.reasoning is not None
    assert "g" not in recalled.reasoning.bindings
    assert f'"{LAMP}"' not in recalled.context


# --- what decides between values ---


def weight(number: int, month: int, confirmation: str, *, holds: bool = True) -> Fact:
    own = f"r{number}"
    label = Label(relation="replaces", statement="s", record_id=own, newest_id="r0")
    fields = {
        "subject": "user",
        "attribute": "weight",
        "labels": [] if holds else [label],
    }
    return Fact.model_validate(
        {
            "id": f"record:{own}",
            "text": "t",
            "at": f"2026-0{month}-01T00:00:00Z",
            **fields,
        }
        | {"record_id": own, "confirmation": confirmation}
    )


@pytest.mark.parametrize(
    ("older", "newer", "winner"),
    [
        # recency before grade
        (weight(1, 1, "confirmed"), weight(2, 3, "inferred"), "newer"),
        (weight(1, 1, "inferred"), weight(2, 3, "inferred"), "newer"),
        # nobody agreed to it
        (weight(1, 1, "confirmed"), weight(2, 3, "draft"), "older"),
        (weight(1, 1, "draft"), weight(2, 3, "inferred"), "newer"),
        (weight(1, 1, "inferred"), weight(2, 3, "confirmed", holds=False), "older"),
        (weight(1, 1, "confirmed", holds=False), weight(2, 3, "draft"), "newer"),
        # of the same day: grade
        (weight(1, 2, "confirmed"), weight(2, 2, "inferred"), "older"),
        (weight(1, 2, "confirmed"), weight(2, 2, "confirmed"), None),
    ],
)
def test_between_the_users_own_statements_the_newer_one_counts(
    older: Fact, newer: Fact, winner: str | None
) -> None:
    assert decide({"older": [older], "newer": [newer]}) == winner
    assert decide({"newer": [newer], "older": [older]}) == winner


def test_only_the_facts_that_hold_date_a_value() -> None:
    past = weight(3, 5, "confirmed", holds=False)
    values = {
        "94 kg": [weight(1, 1, "confirmed"), past],
        "89 kg": [weight(2, 3, "confirmed")],
    }
    assert decide(values) == "89 kg"
