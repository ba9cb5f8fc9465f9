"""What code checks of a refinement."""

import pytest

from langmem_graph.reasoning.refine_subgoals import invented
from tests.support.goal_loops import prove
from tests.support.goals import PLAN
from tests.support.models import AnswersBySchema


@pytest.mark.parametrize(
    ("text", "strange"),
    [
        ("Tom is married to (w)", []),
        ("Mia is married to Tom", ["Mia"]),
        ("the wife of Karl", ["Karl"]),
        ("Birthday of Tom", []),
        ("the 7 dwarfs", ["7"]),
        ("born in 1999", []),
        ("The user's brother", []),
        ("Tom's wife", []),
        ("Greta's wife", ["Greta"]),
    ],
)
def test_names_out_of_thin_air_are_noticed(text: str, strange: list[str]) -> None:
    assert invented(text, "Tom was born in 1999, says the user") == strange


def test_refinements_are_refused_with_a_reason() -> None:
    proposals = {
        "subgoals": [
            {
                "atom": "(q:person) is the wife of the user's brother",
                "query": "a",
                "for_subgoal": "s1",
            },
            {"atom": "Karl is married to (w:person)", "query": "Karl", "for_subgoal": "s1"},
            {"atom": "somebody saw (w:person)", "query": "wife brother", "for_subgoal": "s1"},
            {"atom": "for nothing", "query": "b", "for_subgoal": "s9"},
            {"atom": "the brother's wedding", "query": "wedding guests", "for_subgoal": "s1"},
            {"atom": "the family tree", "query": "tree of the family", "for_subgoal": "s1"},
            {"atom": "an old letter", "query": "letters", "for_subgoal": "s1"},
        ]
    }
    done = prove(AnswersBySchema(GoalPlan=PLAN, Refinement=proposals), reasoning__depth=1)
    noted = [one for one in done["trace"] if one["event"] == "memory_refinement"]
    reasons = [one.get("reason", "taken") for one in noted]
    assert [reason.split(":")[0] for reason in reasons] == [
        "was there before",
        "names what nobody mentioned",
        "asks for the same as before",
        "is for no open statement",
        "taken",
        "taken",
        "one too many for its statement",
    ]
