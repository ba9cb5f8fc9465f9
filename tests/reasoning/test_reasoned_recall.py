"""Reasoning over a memory: proofs over several hops, switches and relations."""

from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from langmem_graph.graphs.recall_graph import create_recall_graph
from langmem_graph.results import Recall
from langmem_graph.retrieval.facts import find_facts
from langmem_graph.retrieval.search_common import UserSearch
from langmem_graph.settings import Settings
from langmem_graph.storage.graph_neighbours import CAUSAL
from langmem_graph.storage.reading import EVERYTHING
from langmem_graph.storage.record_writes import add_link
from tests.support.goals import ASKED, BAD, PLAN
from tests.support.reasoning import ANA, calls, with_records
from tests.support.recalled import PALM, PUPPY, RISKS, SAID, acting, good


def test_a_question_of_several_hops_is_proved(open_memory: Any) -> None:
    model = good()
    found = open_memory(model).user("ana").recall(ASKED, mode="auto")
    assert found.reasoning.status == "grounded"
    assert found.reasoning.bindings == {"w": "Lena", "g": "the ceramic lamp"}
    lines = found.context.splitlines()
    assert lines[3].startswith(
        'Facts for the request (w = "Lena", g = "the ceramic lamp"):'
    )
    assert {hit.message_id for hit in found.evidence[:3]} == {"m2", "m3", "m4"}
    assert calls(model) == ["GoalPlan", "Unification"]
    assert found.report.llm_calls == 2
    assert found.report.mode == "auto"
    assert Recall.model_validate_json(found.model_dump_json()) == found


def test_what_stays_open_is_named(open_memory: Any) -> None:
    found = open_memory(good(Unification={})).user("ana").recall(ASKED, mode="reason")
    assert found.reasoning.status == "exhausted"
    assert found.reasoning.unresolved == ["(w:person)", "(g:gift)"]
    assert 'Not found in memory:\n- "(w:person)"' in found.context


def test_calls_of_a_look_up_that_suffices_and_of_the_worst_case(
    open_memory: Any,
) -> None:
    model = good(GoalPlan={"facts": ["f1"], "sure": True})
    found = open_memory(model).user("ana").recall(ASKED, mode="reason")
    assert found.report.llm_calls == len(calls(model)) == 1

    words = iter("alder birch cedar dogwood elder fir ginkgo hazel".split())

    def more(prompt: str) -> dict[str, Any]:
        own = (next(words), next(words))
        return {
            "look_for": [
                {"atom": f"a {w} is there", "query": w, "for_subgoal": "s1"}
                for w in own
            ]
        }

    worst = good(
        GoalPlan={**PLAN, "intent": "act", "risks": RISKS},
        Unification=more,
        GroundedAnswer={"known": False},
    )
    narrow = {
        "context__k": 1,
        "reasoning__plan_facts": 1,
        "reasoning__subgoal_facts": 1,
    }
    memory = open_memory(worst, reasoning__risk_floor=0.1, **narrow)
    user = memory.user("ana")
    trees = [
        f"The {w} grows." for w in "alder birch cedar dogwood elder fir ginkgo".split()
    ]
    user.add([{"role": "user", "content": text} for text in trees], session_id="trees")
    found = user.recall(ASKED, mode="reason")
    assert calls(worst) == ["GoalPlan", *["Unification"] * 3, "Consequences"]
    assert found.report.llm_calls == 5
    assert found.context

    words = iter("alder birch cedar dogwood elder fir ginkgo hazel".split())
    worst.asked.clear()
    graph = create_recall_graph(memory, mode="reason", answer=True)
    done = graph.invoke({"messages": [HumanMessage(ASKED)]}, ANA)
    assert done["memory_recall"]["report"]["llm_calls"] == len(calls(worst)) == 6


def test_small_talk_costs_nothing_in_auto(open_memory: Any) -> None:
    model = good()
    found = open_memory(model).user("ana").recall("Thanks a lot!", mode="auto")
    assert (found.report.llm_calls, calls(model)) == (0, [])
    assert found.reasoning is not None


UNREAD = ("no tool call", "an empty answer", "another error", "a list")
"""Kinds that no step gets to see: the gate tries them in all steps at once."""


@pytest.mark.parametrize(
    ("step", "bad"),
    [
        pytest.param(step, bad, marks=marks, id=f"{step}-{name}")
        for step in ("GoalPlan", "Unification", "Consequences", "GroundedAnswer", "all")
        for name, bad in BAD.items()
        for marks in [[pytest.mark.stress] if name in UNREAD and step != "all" else []]
    ],
)
def test_bad_answers_never_cost_the_turn_its_context(
    open_memory: Any, step: str, bad: Any
) -> None:
    names = ["GoalPlan", "Unification", "Consequences", "GroundedAnswer"]
    chosen = names if step == "all" else [step]
    model = good(**dict.fromkeys(chosen, bad))
    graph = create_recall_graph(open_memory(model), answer=True)
    asked = f"{ASKED} And can I buy another one for her?"
    done = graph.invoke({"messages": [HumanMessage(asked)]}, ANA)
    assert SAID["m4"] in done["memory_context"]
    assert done["messages"][-1].text
    report = done["memory_recall"]["report"]
    assert report["llm_calls"] <= Settings().reasoning.max_calls
    assert report["llm_calls"] == len(calls(model))


# --- switches ---


def test_without_goals_or_counterfactual(open_memory: Any) -> None:
    model = good()
    open_memory(model, reasoning__use_goals=False).user("ana").recall(PALM, mode="auto")
    assert calls(model) == ["GoalPlan"]
    model, narrow = acting(), {"reasoning__plan_facts": 1, "context__k": 1}
    memory = open_memory(model, reasoning__use_counterfactual=False, **narrow)
    memory.user("ana").recall("the aisle seat", mode="auto")
    assert calls(model) == ["GoalPlan"]
    model = acting()
    memory = open_memory(
        model, reasoning__use_counterfactual=False, reasoning__use_goals=False
    )
    assert PUPPY in memory.user("ana").recall(PALM, mode="auto").context
    assert calls(model) == []


# --- relation hints ---


def test_relations_steer_the_search(open_memory: Any) -> None:
    memory = open_memory(good())
    with_records(
        memory,
        "The flood ruined the cellar",
        "The pump was bought",
        "A trip to Rome",
        "Pump oil",
    )
    services = memory._services
    with services.room("ana") as room, room.database.write_transaction() as connection:
        add_link(connection, 1, 3, CAUSAL, weight=0.9, scorer="t", origin="t")

    def texts(query: str, k: int, relation: Any) -> list[str]:
        with services.room("ana") as room:
            found = find_facts(
                UserSearch.of(services, room, EVERYTHING), query, k, relation
            )
        return [fact.text for fact in found]

    assert "A trip to Rome" in texts("flood cellar", 2, "causal")
    assert "A trip to Rome" not in texts("flood cellar", 2, "semantic")
    assert all("pump" in one.lower() for one in texts("pump", 9, "entity"))
    dated = texts("Tom Lena lamp brother puppy", 4, "temporal")
    order = [list(SAID.values()).index(one) for one in dated if one in SAID.values()]
    assert order == sorted(order)


def test_messages_whose_records_are_superseded_are_outdated(open_memory: Any) -> None:
    memory = open_memory(good())
    ana = memory.user("ana")
    old = {
        "text": "The user lives in Porto.",
        "source_message_ids": ["m5"],
        "record_id": "old",
    }
    new = {
        "text": "The user lives in Rome.",
        "source_message_ids": ["m4"],
        "record_id": "new",
    }
    ana.add_records([old])
    ana.add_records([{**new, "supersedes": ["old"]}])
    services = memory._services
    with services.room("ana") as room:
        found = find_facts(UserSearch.of(services, room, EVERYTHING), SAID["m5"], 9)
    by_id = {fact.id: fact for fact in found}
    assert by_id["record:old"].outdated
    assert by_id["record:old"].message_ids == ["m5"]  # which it stands for
    assert not by_id["record:new"].outdated
    assert not by_id["message:m1"].outdated
