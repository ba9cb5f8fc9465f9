"""A user's messages, and scripted models that reason over them."""

from typing import Any

from tests.support.goals import PLAN, alias
from tests.support.models import AnswersBySchema

PUPPY = "Our puppy Miso is teething and chews everything, above all plants."
PALM = "Where can I buy a sago palm?"

RISKS = {
    "risks": [
        {
            "claim": "Sago palms are poisonous to dogs.",
            "examples": ["Our puppy chews everything"],
            "basis": "world",
        },
        {"claim": "It needs a lot of light.", "examples": ["zzz qqq"], "basis": "world"},
    ]
}

SAID = {
    "m1": PUPPY,
    "m2": "Tom is my brother.",
    "m3": "Tom married Lena in 2019.",
    "m4": "Lena liked the ceramic lamp.",
    "m5": "I prefer an aisle seat.",
}


def unify(prompt: str) -> dict[str, Any]:
    brother, wedding, lamp = (alias(prompt, SAID[one]) for one in ("m2", "m3", "m4"))
    if not (brother and wedding and lamp):
        return {}
    return {
        "bindings": [
            {"variable": "w", "entity": "Lena", "facts": [brother, wedding]},
            {"variable": "g", "entity": "the ceramic lamp", "facts": [lamp]},
        ],
        "grounded": [
            {"subgoal": "s1", "facts": [brother, wedding]},
            {"subgoal": "s2", "facts": [lamp]},
        ],
    }


def good(**answers: Any) -> AnswersBySchema:
    given = {"GoalPlan": PLAN, "Unification": unify, "Refinement": {"stop": True}}
    given["Consequences"] = RISKS
    given["GroundedAnswer"] = lambda prompt: {
        "known": True,
        "answer": "The ceramic lamp.",
        "facts": ["f1"],
    }
    return AnswersBySchema(**given | {"Extraction": {"memories": []}} | answers)


def acting(**answers: Any) -> AnswersBySchema:
    return good(GoalPlan={"intent": "act", "risky": True}, **answers)
