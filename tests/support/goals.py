"""A question of several hops, answers that prove it, and answers that cannot be used."""

import re
from typing import Any

from langchain_core.messages import AIMessage

BROTHER = "Tom is the user's brother"
WEDDING = "Tom married Lena in 2019"
LAMP = "Lena liked the ceramic lamp"
MEMORY = [BROTHER, WEDDING, LAMP, "Nora liked the scarf", "The user lives in Porto"]

PLAN = {
    "subgoals": [
        {
            "atom": "(w:person) is the wife of the user's brother",
            "query": "brother wife",
        },
        {"atom": "(w:person) liked (g:gift)", "query": "liked gift"},
    ],
    "answer": ["g"],
    "central": ["gift", "brother's wife"],
}

ASKED = "What gift did my brother's wife like?"


def search(query: str, k: int) -> list[str]:
    """Texts that share most words with the query, not all that share one."""
    words = set(re.findall(r"\w+", query.lower()))
    scored = [
        (len(words & set(re.findall(r"\w+", text.lower()))), text) for text in MEMORY
    ]
    return [text for score, text in sorted(scored, key=lambda pair: -pair[0]) if score][
        :k
    ]


def alias(prompt: str, text: str) -> str | None:
    found = re.search(rf'^(f\d+): .*"{re.escape(text)}"$', prompt, re.MULTILINE)
    return found[1] if found else None


def named(prompt: str, words: str) -> str:
    """What the prompt calls the statement with these words."""
    found = re.search(rf"^(s\d+): .*{words}", prompt, re.MULTILINE)
    return found[1] if found else "s0"


def unify(prompt: str) -> dict[str, Any]:
    """Binds the wife by the wedding, and the gift once the wife is known."""
    brother, wedding, lamp = (alias(prompt, text) for text in (BROTHER, WEDDING, LAMP))
    bindings, grounded = [], []
    known = "w = Lena" in prompt
    if brother and wedding and not known:
        bindings.append(
            {"variable": "w", "entity": "Lena", "facts": [brother, wedding]}
        )
        grounded.append(
            {"subgoal": named(prompt, "wife of"), "facts": [brother, wedding]}
        )
        known = True
    if known and lamp:
        bindings.append({"variable": "g", "entity": "ceramic lamp", "facts": [lamp]})
        grounded.append({"subgoal": named(prompt, " liked "), "facts": [lamp]})
    tom = {"atom": "Tom is married to (w:person)", "query": "Tom married"}
    wanted = (
        [tom | {"for_subgoal": named(prompt, "wife of")}]
        if brother and not known
        else []
    )
    return {"bindings": bindings, "grounded": grounded, "look_for": wanted}


BAD = {
    "no tool call": AIMessage("I would rather not."),
    "an empty answer": AIMessage(""),
    "an error": ConnectionError("gone"),
    "another error": ValueError("odd"),
    "a list": {"subgoals": "many", "bindings": 7, "grounded": {}},
    "forty": {
        "subgoals": [{"atom": f"a{n} (x:t)", "query": "q"} for n in range(40)],
        "look_for": [
            {"atom": f"a{n} (x:t)", "query": "q", "for_subgoal": "s1"}
            for n in range(40)
        ],
        "risks": [{"claim": f"c{n}", "examples": ["e"] * 9} for n in range(40)],
        "bindings": [{"variable": "w", "entity": "x", "facts": ["f1"]}] * 40,
    },
    "none": {},
    "nulls": {
        "subgoals": None,
        "bindings": None,
        "grounded": None,
        "intent": None,
        "sure": None,
    },
    "blanks": {
        "subgoals": [{"atom": "", "query": ""}],
        "look_for": [{"atom": "", "query": "", "for_subgoal": ""}],
        "against": [{"fact": "", "why": ""}],
        "rows": [{"item": "", "facts": []}],
        "bindings": [{"variable": "", "entity": "", "facts": []}],
        "grounded": [{"subgoal": "", "facts": []}],
    },
    "foreign ids": {
        "facts": ["f99"],
        "sure": True,
        "rows": [{"item": "Lena", "facts": ["f99"]}],
        "against": [{"fact": "f99", "why": "It bites."}],
        "subgoals": [{"atom": "(x:t)", "query": "x"}],
        "look_for": [{"atom": "(x:t)", "query": "x", "for_subgoal": "s77"}],
        "bindings": [{"variable": "w", "entity": "Lena", "facts": ["f99", "m1"]}],
        "grounded": [
            {"subgoal": "s99", "facts": ["f1"]},
            {"subgoal": "s1", "facts": ["f99"]},
        ],
    },
    "itself": {
        "look_for": [
            {
                "atom": "(v:person) is the wife of the user's brother",
                "query": "something else entirely",
                "for_subgoal": "s1",
            }
        ]
    },
    "a type loop": {
        "subgoals": [
            {"atom": "(x:y) is (y:x)", "query": "x"},
            {"atom": "(y:x) is (x:y)", "query": "y"},
        ],
        "bindings": [
            {"variable": "x", "entity": "(y:x)", "facts": ["f1"]},
            {"variable": "y", "entity": "(x:y)", "facts": ["f1"]},
        ],
    },
    "endless": AIMessage("la " * 40_000),
}
