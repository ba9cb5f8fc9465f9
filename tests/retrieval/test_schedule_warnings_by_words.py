"""Warnings of times that the words of a request name, without a model and in every graph."""

from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from langmem_graph.graphs.nodes import create_recall_node
from langmem_graph.graphs.recall_graph import create_recall_graph
from langmem_graph.retrieval.quoted_context import AGAINST, ALSO
from tests.support.schedule_talk import (
    ASKED,
    DENTIST,
    NOW,
    WARNING,
    noted,
    scripted_model,
    warnings_of,
    with_dentist,
)


def test_a_recall_without_a_model_warns_too(open_memory: Any) -> None:
    ana = with_dentist(open_memory(None))
    found = ana.recall(ASKED, at=NOW)
    lines = found.context.splitlines()
    assert lines[3] == AGAINST
    assert lines[4] == f"- {WARNING}: Tue 2099-06-02 15:30 to 16:30 UTC [m1]"
    assert lines[5].endswith('[m1]: "The user sees the dentist."')
    assert lines[6] == ALSO
    assert found.reasoning.overlaps == [
        "Tue 2099-06-02 15:30 to 16:30 UTC: The user sees the dentist."
    ]
    assert [fact.message_ids for fact in found.facts] == [["m1"]]
    assert [hit.message_id for hit in found.evidence] == ["m1"]
    assert found.report.llm_calls == 0


def test_a_recall_without_a_model_does_not_warn_without_reason(
    open_memory: Any,
) -> None:
    ana = with_dentist(open_memory(None))
    for asked in ("Can we meet Wednesday 15:30?", "Can we meet soon?", "dentist"):
        found = ana.recall(asked, at=NOW)
        assert AGAINST not in found.context
        assert ALSO not in found.context
        assert (found.reasoning, found.facts) == (None, [])


def test_a_warning_counts_as_part_of_the_budget(open_memory: Any) -> None:
    ana = with_dentist(open_memory(None))
    whole = ana.recall(ASKED, at=NOW)
    for budget in (1, 60, whole.report.context_tokens - 1, whole.report.context_tokens):
        found = ana.recall(ASKED, at=NOW, max_tokens=budget)
        assert found.report.context_tokens <= budget
        assert bool(found.facts) is (WARNING in found.context)
        assert len(found.reasoning.overlaps) == 1  # the report knows of it all the same


def test_what_is_in_view_is_named_and_not_quoted_again(open_memory: Any) -> None:
    for model in (None, scripted_model()):
        ana = with_dentist(open_memory(model))
        mode = "auto" if model else "fast"
        found = ana.recall(ASKED, at=NOW, mode=mode, in_view=["m1"])
        assert f"{WARNING}: Tue 2099-06-02 15:30 to 16:30 UTC [m1]" in found.context
        assert "sees the dentist" not in found.context
        assert found.facts == []


def test_nodes_and_graphs_warn(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = with_dentist(open_memory(scripted_model()))
    memory = open_memory(scripted_model())
    assert ana.id == "ana"
    state: Any = {
        "messages": [HumanMessage("Can we set the review for 2099-06-02 15:00?")]
    }
    config: Any = {"configurable": {"user_id": "ana"}}
    graph = create_recall_graph(memory).invoke(state, config)
    assert WARNING in graph["memory_context"]
    plain = create_recall_graph(memory, mode="fast").invoke(state, config)
    assert WARNING in plain["memory_context"]
    node = create_recall_node(memory).invoke(state, config)
    assert WARNING in node["memory_context"]


async def test_the_asynchronous_twin_takes_the_time_of_asking(open_memory: Any) -> None:
    ana = with_dentist(open_memory(None))
    assert WARNING in (await ana.arecall(ASKED, at=NOW)).context
    assert WARNING not in (await ana.arecall(ASKED, at="2099-06-10T09:00")).context


def test_a_schedule_that_cannot_be_read_costs_the_warning_alone(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = with_dentist(open_memory(scripted_model()))

    def fail(*_: Any) -> None:
        raise OSError("disk")

    monkeypatch.setattr("langmem_graph.reasoning.lookups.overlaps_at", fail)
    found = ana.recall(ASKED, at=NOW, mode="auto")
    assert "comparing with the schedule failed: OSError: disk" in found.report.warnings
    assert "I see the dentist." in found.context or "sees the dentist" in found.context


def test_without_the_counterfactual_words_still_count(open_memory: Any) -> None:
    ana = with_dentist(
        open_memory(
            scripted_model(),
            reasoning__use_counterfactual=False,
            reasoning__use_goals=False,
        )
    )
    found = ana.recall(ASKED, at=NOW, mode="auto")
    assert len(warnings_of(found)) == 1
    assert found.report.llm_calls == 0


def test_what_was_to_come_when_it_was_said_is_planned(open_memory: Any) -> None:
    """A conversation of years ago is read as it was then."""
    past = {**DENTIST, "when": "2020-06-02T15:30"}
    memory = open_memory(scripted_model(noted(past)))
    ana = memory.user("ana")
    said = {
        "role": "user",
        "content": "The dentist.",
        "id": "m1",
        "at": "2020-05-01T10:00",
    }
    ana.add([said], session_id="s")
    ana.flush()
    found = ana.recall(ASKED, at="2020-06-01T09:00", mode="fast")
    assert warnings_of(found)
    assert not warnings_of(ana.recall(ASKED, at=NOW, mode="fast"))


def test_what_was_forgotten_meanwhile_collides_no_more(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from langmem_graph.reasoning import assemble_context as context

    memory = open_memory(scripted_model())
    ana = with_dentist(memory)
    read = context._read

    def forgetting(room: Any, *rest: Any) -> Any:
        memory.user("ana").forget(message="m1")
        return read(room, *rest)

    monkeypatch.setattr(context, "_read", forgetting)
    found = ana.recall(ASKED, at=NOW, mode="auto")
    assert WARNING not in found.context
    assert found.reasoning.overlaps == []
