"""The counterfactual edge: risks of an act, and the facts that bear them out."""

import re
from typing import Any

import pytest

from langmem_graph.memory import Memory
from langmem_graph.storage.graph_neighbours import CAUSAL, SEMANTIC
from langmem_graph.storage.record_writes import add_link
from tests.support.reasoning import calls, with_records
from tests.support.recalled import PALM, POISON, PUPPY, RISKS, SAID, act, acting, good

NARROW = {"context__k": 1, "reasoning__plan_facts": 1}
"""The planning call sees one fact, which is not the puppy."""


def test_what_the_plan_names_comes_first_and_costs_one_call(open_memory: Any) -> None:
    model = acting()
    found = open_memory(model).user("ana").recall(PALM, mode="auto")
    lines = found.context.splitlines()
    assert lines[3:6] == [
        "Check this before acting on the request:",
        f'- "{POISON}"',
        f'  - 2025-03-01 10:00 user [m1]: "{PUPPY}"',
    ]
    assert "a lot of light" not in found.context
    assert [risk.basis for risk in found.reasoning.risks] == [
        "memory",
        "world",
        "world",
    ]
    assert calls(model) == ["GoalPlan"]  # nothing that it has not seen


def test_what_the_plan_did_not_see_is_asked_about_once(open_memory: Any) -> None:
    model = acting()
    memory = open_memory(model, reasoning__risk_floor=0.1, **NARROW)
    found = memory.user("ana").recall("Book a seat on the aisle", mode="auto")
    assert calls(model) == ["GoalPlan", "Consequences"]
    # which the plan has seen
    assert SAID["m5"] not in dict(model.asked)["Consequences"]
    assert f'- "{POISON}"' in found.context
    assert PUPPY in found.context
    assert SAID["m2"] not in found.context  # found for the risks, and not named


def test_a_fact_that_is_merely_near_is_no_warning(open_memory: Any) -> None:
    model = acting(Consequences={"against": []})
    memory = open_memory(model, reasoning__risk_floor=0.1, **NARROW)
    found = memory.user("ana").recall("Book a seat on the aisle", mode="auto")
    assert "Consequences" in calls(model)
    assert "Check this" not in found.context
    assert PUPPY not in found.context


@pytest.mark.parametrize(
    ("plan", "taken"),
    [
        ({"intent": "lookup", "sure": True, "facts": ["f1"]}, False),
        ({"intent": "act", "sure": True}, True),
        ({"intent": "act", "sure": True, "risks": []}, False),
    ],
)
def test_the_edge_is_taken_where_something_may_speak_against_it(
    open_memory: Any, plan: Any, taken: bool
) -> None:
    model = good(GoalPlan={"risks": RISKS, **plan}, Unification={})
    memory = open_memory(model, reasoning__risk_floor=0.1, **NARROW)
    memory.user("ana").recall("the aisle seat", mode="auto")
    assert ("Consequences" in calls(model)) is taken


def test_general_knowledge_is_never_stored_and_binds_nothing(open_memory: Any) -> None:
    memory = open_memory(acting())
    ana = memory.user("ana")
    found = ana.recall(PALM, mode="auto")
    assert found.reasoning.bindings == {}
    assert not [row for row in ana.export() if "poisonous" in row["content"]]
    assert ana.export_records(history=True) == []


def test_what_was_not_shown_speaks_against_nothing(open_memory: Any) -> None:
    plan = {
        "intent": "act",
        "sure": True,
        "against": [{"fact": "f77", "why": "Nobody likes it."}],
    }
    found = open_memory(acting(GoalPlan=plan)).user("ana").recall(PALM, mode="auto")
    assert found.reasoning.risks == []
    assert "Nobody" not in found.context


def test_what_was_forgotten_meanwhile_speaks_against_nothing(open_memory: Any) -> None:
    def forgetting(prompt: str) -> dict[str, Any]:
        memory.user("ana").forget(message="m1")
        return act(prompt)

    memory = open_memory(acting(GoalPlan=forgetting))
    found = memory.user("ana").recall(PALM, mode="auto")
    assert "poisonous" not in found.context
    assert "memory" not in [risk.basis for risk in found.reasoning.risks]
    assert not [event for event in found.trace if event["event"] == "memory_risk"]


@pytest.mark.parametrize("kind", [CAUSAL, SEMANTIC])
@pytest.mark.parametrize("use", [True, False])
def test_edges_are_followed_in_both_directions(
    open_memory: Any, kind: str, use: bool
) -> None:
    switch = (
        "reasoning__use_causal_edges"
        if kind == CAUSAL
        else "reasoning__use_semantic_edges"
    )
    model = acting()
    memory = open_memory(model, reasoning__risk_facts=1, **NARROW, **{switch: use})
    seed, forth, back, _ = with_records(
        memory,
        "sago palm where buy",
        "the vase fell",
        "a flood came",
        "unlike anything",
    )
    with (
        memory._services.room("ana") as room,
        room.database.write_transaction() as connection,
    ):
        add_link(connection, seed, forth, kind, weight=0.9, scorer="t", origin="t")
        add_link(connection, back, seed, kind, weight=0.8, scorer="t", origin="t")
    memory.user("ana").recall("sago palm where buy", mode="auto")
    prompt = dict(model.asked).get("Consequences", "")
    assert all((text in prompt) is use for text in ("the vase fell", "a flood came"))
    assert "unlike anything" not in prompt


def test_semantic_edges_below_a_cosine_are_not_followed(open_memory: Any) -> None:
    model = acting()
    memory = open_memory(
        model, reasoning__risk_facts=1, reasoning__semantic_edge_floor=0.5, **NARROW
    )
    seed, near, far, caused = with_records(
        memory,
        "sago palm where buy",
        "the vase fell",
        "a flood came",
        "unlike anything",
    )
    with (
        memory._services.room("ana") as room,
        room.database.write_transaction() as connection,
    ):
        add_link(connection, seed, near, SEMANTIC, weight=0.5, scorer="t", origin="t")
        add_link(connection, seed, far, SEMANTIC, weight=0.49, scorer="t", origin="t")
        add_link(connection, seed, caused, CAUSAL, weight=0.1, scorer="t", origin="t")
    memory.user("ana").recall("sago palm where buy", mode="auto")
    prompt = dict(model.asked)["Consequences"]
    assert all(text in prompt for text in ("the vase fell", "unlike anything"))
    assert "a flood came" not in prompt


def test_at_most_eight_facts_come_along_edges(open_memory: Any) -> None:
    model = acting()
    memory = open_memory(model, reasoning__risk_facts=1, **NARROW)
    numbers = with_records(
        memory, "sago palm where buy", *(f"thing {n}" for n in range(12))
    )
    with (
        memory._services.room("ana") as room,
        room.database.write_transaction() as connection,
    ):
        for other in numbers[1:]:
            add_link(
                connection, 1, other, CAUSAL, weight=other / 20, scorer="t", origin="t"
            )
    memory.user("ana").recall("sago palm where buy", mode="auto")
    linked = re.findall(r"thing \d+", dict(model.asked)["Consequences"])
    assert len(linked) == 8
    assert linked[0] == "thing 11"  # the heaviest edge first


def _appointment(memory: Memory, **event: Any) -> None:
    memory.user("ana").add_records(
        [
            {
                "text": "The user sees the dentist.",
                "source_message_ids": ["m5"],
                "facet": "schedule",
                "event_time": event,
            }
        ]
    )


@pytest.mark.parametrize(
    ("start", "end", "collides"),
    [
        ("2025-06-02T09:30", "2025-06-02T10:30", True),
        ("2025-06-02T10:00", "", False),
        ("2025-06-02", "", True),
        ("2025-06-09T09:15", "", True),
        ("2025-06-03T09:00", "", False),
        ("soon", "", False),
        ("2025-06-02T09:30", "never", True),
        ("2025-06-02T09:30", "2020-01-01T00:00", True),
    ],
)
def test_appointments_at_the_same_time_are_found_by_code(
    open_memory: Any, start: str, end: str, collides: bool
) -> None:
    plan = {"intent": "act", "sure": True, "start": start, "end": end}
    memory = open_memory(acting(GoalPlan=plan))
    _appointment(memory, start="2025-06-02T09:00", recurrence="FREQ=WEEKLY;BYDAY=MO")
    found = memory.user("ana").recall("Book me a haircut", mode="auto")
    assert bool(found.reasoning.overlaps) is collides
    if collides:
        line = "- The schedule has something at that time: Mon 2025-06-0"
        assert found.context.splitlines()[4].startswith(line)
        assert found.context.splitlines()[4].endswith(
            " 09:00 to 10:00 UTC, recurring [m5]"
        )
        assert "sees the dentist" in found.context.splitlines()[5]


def test_the_examples_are_embedded_once(open_memory: Any) -> None:
    memory = open_memory(acting(), reasoning__risk_facts=1, **NARROW)
    with_records(memory, "sago palm where buy", "the vase fell")
    embeddings, embedded = memory._services.embedder.embeddings, list[list[str]]()
    embed = embeddings.embed_documents
    embeddings.embed_documents = lambda texts: embedded.append(texts) or embed(texts)
    memory.user("ana").recall("sago palm where buy", mode="auto")
    examples = {example for risk in RISKS for example in risk["examples"]}
    assert [set(texts) & examples != set() for texts in embedded].count(True) == 1


def test_a_failing_second_search_is_reported_and_the_rest_stays(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory(acting(), **NARROW)

    def fail(*_: Any) -> None:
        raise OSError("disk")

    monkeypatch.setattr(
        "langmem_graph.reasoning.counterfactual.nearest_to_examples", fail
    )
    found = memory.user("ana").recall("the aisle seat", mode="auto")
    assert found.report.status == "degraded"
    assert "looking for risks failed: OSError: disk" in found.report.warnings


def test_a_schedule_of_years_is_compared_quickly(open_memory: Any) -> None:
    plan = {"intent": "act", "sure": True, "start": "2025-06-02T09:30"}
    memory = open_memory(acting(GoalPlan=plan))
    old = [
        {
            "text": f"Standing thing {n}.",
            "source_message_ids": ["m5"],
            "facet": "schedule",
            "event_time": {
                "start": f"2023-01-01T{n % 24:02d}:00",
                "recurrence": "FREQ=DAILY",
            },
        }
        for n in range(60)
    ]
    memory.user("ana").add_records(old)
    _appointment(memory, start="2025-06-02T09:00")
    found = memory.user("ana").recall("Book me a haircut", mode="auto")
    # what happens once comes first
    assert "sees the dentist" in found.reasoning.overlaps[0]
    assert len(found.reasoning.overlaps) <= 5


@pytest.mark.parametrize("use", [True, False])
def test_without_a_usable_plan_one_call_judges_what_was_recalled(
    open_memory: Any, use: bool
) -> None:
    """What speaks against an act is named all the same, and that the plan failed."""
    model = acting(GoalPlan="no JSON at all", Unification={})
    memory = open_memory(model, reasoning__use_counterfactual=use)
    found = memory.user("ana").recall(PALM, mode="auto")
    assert calls(model).count("Consequences") == use
    assert (f'- "{POISON}"' in found.context) is use
    assert found.report.status == "degraded"
    assert all(problem.startswith("GoalPlan") for problem in found.report.problems)


def test_a_model_that_does_not_answer_is_not_asked_again(open_memory: Any) -> None:
    model = acting(GoalPlan=ConnectionError("down"))
    open_memory(model).user("ana").recall(PALM, mode="auto")
    assert "Consequences" not in calls(model)
