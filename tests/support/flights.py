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


def taken(prompt: str, path: str, quote: str, source: str) -> dict[str, Any]:
    """A citation of one of the messages."""
    return {"path": path, "fact": alias(prompt, SAID[source]), "quote": quote}


def answer(
    arguments: dict[str, Any], *sources: Any, missing: Any = ()
) -> dict[str, Any]:
    """A whole answer; a source is a citation, or path, fact and quote."""
    cited = [
        one
        if isinstance(one, dict)
        else dict(zip(("path", "fact", "quote"), one, strict=True))
        for one in sources
    ]
    return {"arguments": arguments, "sources": cited, "missing": list(missing)}


def filling(*entries: tuple[str, Any, Any, str], missing: Any = ()) -> dict[str, Any]:
    """An answer of values; each with its path, the facts that are cited, and the quote."""
    arguments: dict[str, Any] = {}
    sources = []
    for path, value, facts, quote in entries:
        inner, (*outer, last) = arguments, path.split(".")
        for name in outer:
            inner = inner.setdefault(name, {})
        inner[last] = value
        cited = [facts] if isinstance(facts, str) else facts
        sources += [{"path": path, "fact": fact, "quote": quote} for fact in cited]
    return {"arguments": arguments, "sources": sources, "missing": list(missing)}
