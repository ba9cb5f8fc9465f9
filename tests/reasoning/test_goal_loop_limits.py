"""The caps of the goal loop, and models and searches that misbehave."""

import asyncio
import re
from typing import Any

import pytest

from langmem_graph.graphs.goal_graph import create_goal_graph
from langmem_graph.settings import ReasoningSettings, Settings
from tests.support.goal_loops import prove, steps
from tests.support.goals import ASKED, BAD, MEMORY, PLAN, search, unify
from tests.support.models import AnswersBySchema

WORDS = "alder birch cedar dogwood elder fir ginkgo hazel ivy juniper".split()


def always_more() -> Any:
    """A model that never tires of refinements."""
    words = iter(WORDS * 10)
    return lambda _: {
        "look_for": [
            {
                "atom": f"there is a {word}",
                "query": f"{word} in the park",
                "for_subgoal": "s1",
            }
            for word in (next(words), next(words))
        ]
    }


CHAIN = ["Tom is my brother.", "Tom married Lena.", "Lena works at Halden."]


def one_hop_a_round() -> Any:
    """A model that names the next statement only when it knows the entity before it."""
    hops = iter(
        [
            ("", "(b:person) is the user's brother"),
            ("b Tom", "Tom married (w:person)"),
            ("w Lena, e Halden", ""),
        ]
    )

    def answer(question: str) -> dict[str, Any]:
        found, atom = next(hops)
        facts = re.findall(r"^(f\d+):", question, re.MULTILINE)
        pairs = [pair.split() for pair in found.split(", ") if pair]
        wanted = {"atom": atom, "query": atom, "for_subgoal": "s1"}
        return {
            "bindings": [
                {"variable": name, "entity": entity, "facts": facts}
                for name, entity in pairs
            ],
            "grounded": [] if atom else [{"subgoal": "s1", "facts": facts}],
            "look_for": [wanted] if atom else [],
        }

    return answer


def always_new(query: str, k: int) -> list[str]:
    return [f"something about {query}"]


def test_the_worst_case_keeps_within_its_calls() -> None:
    """1 to plan, 3 to unify; the counterfactual is the fifth."""
    model = AnswersBySchema(GoalPlan=PLAN, Unification=always_more())
    done = prove(model, always_new)
    assert steps(model) == ["GoalPlan", *["Unification"] * 3]
    assert done["proof"]["status"] == "exhausted"


def test_a_round_that_brings_nothing_new_is_the_last() -> None:
    model = AnswersBySchema(GoalPlan=PLAN, Unification=always_more())
    prove(model, lambda query, k: MEMORY[:2])
    assert steps(model) == ["GoalPlan", "Unification", "Unification"]


def test_a_refined_statement_is_proved_by_what_is_in_view() -> None:
    """In a small memory no search brings a new fact; a chain is followed all the same."""
    plan = {
        "subgoals": [{"atom": "her company is (e:company)", "query": "her company"}],
        "answer": ["e"],
    }
    model = AnswersBySchema(GoalPlan=plan, Unification=one_hop_a_round())
    done = prove(model, lambda query, k: CHAIN, reasoning__subgoal_facts=3)
    assert steps(model) == ["GoalPlan", *["Unification"] * 3]
    assert done["proof"]["status"] == "grounded"
    assert done["proof"]["bindings"]["e"]["entity"] == "Halden"


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_depth_is_a_setting(depth: int) -> None:
    model = AnswersBySchema(GoalPlan=PLAN, Unification=always_more())
    prove(model, always_new, reasoning__depth=depth)
    assert steps(model).count("Unification") == depth + 1


def test_breadth_tries_another_way_to_split() -> None:
    plans = iter([{"subgoals": [{"atom": "nothing helps", "query": "nothing"}]}, PLAN])
    model = AnswersBySchema(GoalPlan=lambda _: next(plans), Unification=unify)
    done = prove(model, reasoning__breadth=2)
    assert done["proof"]["status"] == "grounded"
    assert done["proof"]["tried"] == [["nothing helps"]]
    second = [question for name, question in model.asked if name == "GoalPlan"][1]
    assert "nothing helps" in second


def test_breadth_keeps_its_cap() -> None:
    model = AnswersBySchema(GoalPlan=PLAN)
    done = prove(model, reasoning__breadth=3)
    assert steps(model).count("GoalPlan") == 3
    assert done["proof"]["status"] == "exhausted"


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("step", ["GoalPlan", "Unification", "all"])
def test_bad_answers_end_the_loop_within_its_caps(step: str, bad: Any) -> None:
    good = {"GoalPlan": PLAN, "Unification": unify}
    answers = dict.fromkeys(good, bad) if step == "all" else {**good, step: bad}
    model = AnswersBySchema(**answers)
    done = prove(model)
    proof = done["proof"]
    assert proof["ended"]
    assert proof["status"] in ("grounded", "partial", "exhausted", "budget", "conflict")
    assert done["usage"]["calls"] <= Settings().reasoning.max_calls
    assert len(model.asked) == done["usage"]["calls"]
    for bound in proof["bindings"].values():
        assert bound["entity"] in ("Lena", "ceramic lamp")


def test_an_unreachable_model_is_asked_only_for_the_plan() -> None:
    model = AnswersBySchema(GoalPlan=ConnectionError("refused"))
    done = prove(model)
    assert done["proof"]["status"] == "exhausted"
    assert steps(model) == ["GoalPlan", "GoalPlan"]


def test_the_budget_ends_the_loop_and_says_so() -> None:
    model = AnswersBySchema(GoalPlan=PLAN, Unification=unify)
    assert prove(model, reasoning__max_calls=2)["proof"]["status"] == "budget"
    assert (
        prove(AnswersBySchema(GoalPlan=PLAN), reasoning__seconds=1e-9)["proof"][
            "status"
        ]
        == "budget"
    )


def test_a_caller_cannot_lift_the_cap() -> None:
    model = AnswersBySchema(GoalPlan=PLAN, Unification=unify)
    graph = create_goal_graph(
        search, model=model, settings=Settings(reasoning=ReasoningSettings(max_calls=1))
    )
    forged: Any = {"query": ASKED, "usage": {"calls": -1_000}, "started": 1e12}
    assert graph.invoke(forged)["usage"]["calls"] == 1


def test_a_slow_search_is_not_waited_for() -> None:
    async def slow(query: str, k: int) -> list[str]:
        await asyncio.sleep(30)
        return []

    model = AnswersBySchema(GoalPlan=PLAN, Unification=unify)
    done = prove(model, slow, reasoning__seconds=0.3)
    assert done["proof"]["status"] == "budget"


def test_long_texts_are_cut() -> None:
    model = AnswersBySchema(GoalPlan={"subgoals": []})
    prove(model, lambda query, k: ["x" * 1_000_000], query="why " * 50_000)
    assert max(len(prompt) for _, prompt in model.asked) < 20_000
