"""A user's messages, and scripted models that reason over them."""

from typing import Any

from tests.support.goals import PLAN, alias
from tests.support.models import AnswersBySchema

PUPPY = "Our puppy Miso is teething and chews everything, above all plants."
PALM = "Where can I buy a sago palm?"

POISON = "Sago palms are poisonous to dogs."
RISKS = [
    {"claim": POISON, "examples": ["Our puppy chews everything"]},
    {"claim": "It needs a lot of light.", "examples": ["zzz qqq"]},
]


def against(prompt: str) -> dict[str, Any]:
    """Names the puppy where it is shown."""
    puppy = alias(prompt, PUPPY)
    return {"against": [{"fact": puppy, "why": POISON}] if puppy else []}


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
    given = {"GoalPlan": PLAN, "Unification": unify}
    given["Consequences"] = against
    given["GroundedAnswer"] = lambda prompt: {
        "known": True,
        "answer": "The ceramic lamp.",
        "facts": ["f1"],
    }
    return AnswersBySchema(**given | {"Extraction": {"memories": []}} | answers)


def act(prompt: str) -> dict[str, Any]:
    """The plan of an act: what is shown against it, and what else could speak against it."""
    return {"intent": "act", "sure": True, "risks": RISKS, **against(prompt)}


def acting(**answers: Any) -> AnswersBySchema:
    return good(**{"GoalPlan": act} | answers)
