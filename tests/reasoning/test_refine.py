"""What code checks of a refinement."""

from tests.support.goal_loops import prove
from tests.support.goals import PLAN
from tests.support.models import AnswersBySchema


def test_refinements_are_refused_with_a_reason() -> None:
    proposals = {
        "look_for": [
            {
                "atom": "(q:person) is the wife of the user's brother",
                "query": "a",
                "for_subgoal": "s1",
            },
            {"atom": "(w) is married", "query": "Karl", "for_subgoal": "s1"},
            {"atom": "(q) is married", "query": "Karl", "for_subgoal": "s1"},
            {
                "atom": "somebody saw (w:person)",
                "query": "wife brother",
                "for_subgoal": "s1",
            },
            {"atom": "for nothing", "query": "b", "for_subgoal": "s9"},
            {
                "atom": "the brother's wedding",
                "query": "wedding guests",
                "for_subgoal": "s1",
            },
            {
                "atom": "the family tree",
                "query": "tree of the family",
                "for_subgoal": "s1",
            },
            {"atom": "an old letter", "query": "letters", "for_subgoal": "s1"},
        ]
    }
    done = prove(
        AnswersBySchema(GoalPlan=PLAN, Unification=proposals), reasoning__depth=1
    )
    noted = [one for one in done["trace"] if one["event"] == "memory_refinement"]
    reasons = [one.get("reason", "taken") for one in noted]
    assert [reason.split(":")[0] for reason in reasons] == [
        "was there before",
        "taken",
        "it or a variable in it cannot be read",
        "asks for the same as before",
        "is for no open statement",
        "taken",
        "one too many for its statement",
        "one too many for its statement",
    ]


def test_another_date_asks_for_something_else() -> None:
    years = [
        {
            "atom": f"the user went to (c:city) in {year}",
            "query": f"trip {year}",
            "for_subgoal": "s1",
        }
        for year in (2023, 2024)
    ]
    model = AnswersBySchema(GoalPlan=PLAN, Unification={"look_for": years})
    done = prove(model, reasoning__depth=1, reasoning__same_goal=0.5)
    noted = [one for one in done["trace"] if one["event"] == "memory_refinement"]
    assert [one["accepted"] for one in noted] == [True, True]
