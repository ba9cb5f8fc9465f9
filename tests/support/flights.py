"""A user's messages about flights, and how a scripted model cites them."""

import json
import re
from typing import Any

SAID = {
    "m1": "I always take an aisle seat on planes.",
    "m2": "My frequent flyer number is LH-992 441/x, do not lose it.",
    "m3": "We fly to Łódź (Poland) with 2 bags in June.",
    "m4": "Write to mira+air@example.org about flights.",
    "m5": "On planes I want a vegan meal and a blanket.",
    "m6": "I am a nervous person who insures everything.",
}

ASKED = "Book that flight with my usual seat."


def alias(prompt: str, text: str) -> str:
    """What the prompt calls the source that says this."""
    found = re.search(
        rf"^(f\d+): .*{re.escape(json.dumps(text, ensure_ascii=False))}", prompt, re.M
    )
    assert found, f"{text!r} is not shown:\n{prompt}"
    return found[1]


def copy(prompt: str, slot: str, words: str, source: str) -> dict[str, Any]:
    return {"slot": slot, "how": "copy", "words": words, "sources": [alias(prompt, SAID[source])]}
