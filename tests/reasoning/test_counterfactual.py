"""The counterfactual edge: risks of an act, and the facts that bear them out."""

from typing import Any

import pytest

from langmem_graph.memory import Memory
from langmem_graph.storage.clusters_and_edges import CAUSAL, SEMANTIC
from langmem_graph.storage.record_writes import add_link
from tests.support.reasoning import calls, with_records
from tests.support.recalled import PALM, PUPPY, acting, good


def test_the_puppy_comes_first(open_memory: Any) -> None:
    model = acting()
    found = open_memory(model).user("ana").recall(PALM, mode="auto")
    lines = found.context.splitlines()
    assert lines[3:6] == [
        "Check this before acting on the request:",
        '- "Sago palms are poisonous to dogs." (general knowledge; remembered with it:)',
        f'  - 2025-03-01 10:00 user [m1]: "{PUPPY}"',
    ]
    assert '"It needs a lot of light."' in found.context.split("Possible risks")[1]
    assert [risk.basis for risk in found.reasoning.risks] == ["world", "world"]
    assert calls(model) == ["GoalPlan", "Consequences"]


@pytest.mark.parametrize(
    ("plan", "query", "taken"),
    [
        ({"intent": "lookup"}, "When did I buy the palm?", False),
        ({"intent": "lookup"}, PALM, True),
        ({"intent": "act"}, "the palm, for the hall", True),
        ({"intent": "lookup", "risky": True}, "When did I buy the palm?", True),
        ({"intent": "vague"}, "What's the palm doing?", False),
    ],
)
def test_the_edge_is_taken_for_acts_alone(
    open_memory: Any, plan: Any, query: str, taken: bool
) -> None:
    model = good(GoalPlan={**plan, "sufficient": ["f1"]})
    open_memory(model).user("ana").recall(query, mode="auto")
    assert ("Consequences" in calls(model)) is taken


def test_general_knowledge_is_never_stored_and_binds_nothing(open_memory: Any) -> None:
    memory = open_memory(acting())
    ana = memory.user("ana")
    found = ana.recall(PALM, mode="auto")
    assert found.reasoning.bindings == {}
    assert not [row for row in ana.export() if "poisonous" in row["content"]]
    assert ana.export_records(history=True) == []


def test_a_basis_in_memory_needs_facts_that_were_shown(open_memory: Any) -> None:
    claimed = {"claim": "The user hates palms.", "basis": "memory", "facts": ["f77"]}
    found = (
        open_memory(acting(Consequences={"risks": [claimed]})).user("ana").recall(PALM, mode="auto")
    )
    assert [risk.basis for risk in found.reasoning.risks] == ["world"]


@pytest.mark.parametrize("kind", [CAUSAL, SEMANTIC])
@pytest.mark.parametrize("use", [True, False])
def test_edges_are_followed_in_both_directions(open_memory: Any, kind: str, use: bool) -> None:
    switch = "reasoning__use_causal_edges" if kind == CAUSAL else "reasoning__use_semantic_edges"
    memory = open_memory(acting(), context__k=1, reasoning__risk_facts=1, **{switch: use})
    seed, forth, back, _ = with_records(
        memory, "sago palm where buy", "the vase fell", "a flood came", "unlike anything"
    )
    with memory._services.room("ana") as room, room.database.write_transaction() as connection:
        add_link(connection, seed, forth, kind, weight=0.9, scorer="t", origin="t")
        add_link(connection, back, seed, kind, weight=0.8, scorer="t", origin="t")
    found = memory.user("ana").recall(PALM, mode="auto")
    texts = {fact.text for fact in found.facts}
    assert ({"the vase fell", "a flood came"} <= texts) is use
    assert "unlike anything" not in texts


def test_at_most_eight_facts_come_along_edges(open_memory: Any) -> None:
    memory = open_memory(acting(), context__k=1, reasoning__risk_facts=1)
    numbers = with_records(memory, "sago palm where buy", *(f"thing {n}" for n in range(12)))
    with memory._services.room("ana") as room, room.database.write_transaction() as connection:
        for other in numbers[1:]:
            add_link(connection, 1, other, CAUSAL, weight=other / 20, scorer="t", origin="t")
    found = memory.user("ana").recall(PALM, mode="auto")
    linked = [fact.text for fact in found.facts if fact.text.startswith("thing")]
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
    memory = open_memory(acting(Consequences={"risks": [], "start": start, "end": end}))
    _appointment(memory, start="2025-06-02T09:00", recurrence="FREQ=WEEKLY;BYDAY=MO")
    found = memory.user("ana").recall("Book me a haircut", mode="auto")
    assert bool(found.reasoning.overlaps) is collides
    if collides:
        line = "- The schedule has something at that time: Mon 2025-06-0"
        assert found.context.splitlines()[4].startswith(line)
        assert found.context.splitlines()[4].endswith(" 09:00 to 10:00 UTC, recurring [m5]")
        assert "sees the dentist" in found.context.splitlines()[5]


def test_a_failing_second_search_is_reported_and_the_rest_stays(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory(acting())

    def fail(*_: Any) -> None:
        raise OSError("disk")

    monkeypatch.setattr("langmem_graph.reasoning.counterfactual.nearest_to_examples", fail)
    found = memory.user("ana").recall(PALM, mode="auto")
    assert found.report.status == "degraded"
    assert "looking for risks failed: OSError: disk" in found.report.warnings
    assert PUPPY in found.context


def test_a_schedule_of_years_is_compared_quickly(open_memory: Any) -> None:
    memory = open_memory(acting(Consequences={"risks": [], "start": "2025-06-02T09:30", "end": ""}))
    old = [
        {
            "text": f"Standing thing {n}.",
            "source_message_ids": ["m5"],
            "facet": "schedule",
            "event_time": {"start": f"2023-01-01T{n % 24:02d}:00", "recurrence": "FREQ=DAILY"},
        }
        for n in range(60)
    ]
    memory.user("ana").add_records(old)
    _appointment(memory, start="2025-06-02T09:00")
    found = memory.user("ana").recall("Book me a haircut", mode="auto")
    assert "sees the dentist" in found.reasoning.overlaps[0]  # what happens once comes first
    assert len(found.reasoning.overlaps) <= 5
