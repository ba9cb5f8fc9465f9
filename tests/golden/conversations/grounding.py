"""Tool calls filled from memory."""

from pathlib import Path
from typing import Any

from langmem_graph.graphs import create_grounding_graph
from tests.golden.support import (
    Talk,
    alias,
    change,
    conversation,
    extraction,
    memory,
    said,
)

FERRY = {
    "title": "book_ferry",
    "description": "Book a ferry.",
    "type": "object",
    "properties": {
        "harbour": {"type": "string", "description": "where it goes"},
        "cabin": {"type": "string", "enum": ["inside", "outside"], "default": "inside"},
        "persons": {"type": "integer", "minimum": 1},
        "card": {"type": "string", "description": "customer card number"},
        "meals": {"type": "array", "items": {"type": "string"}},
        "insured": {"type": "boolean"},
        "contact": {
            "type": "object",
            "properties": {"email": {"type": "string"}, "phone": {"type": "string"}},
            "required": ["email"],
        },
    },
    "required": ["harbour", "persons", "card"],
}
LAMP = {
    "name": "switch_lamp",
    "description": "Switch a lamp on or off.",
    "parameters": {
        "type": "object",
        "properties": {
            "room": {"type": "string"},
            "on": {"type": "boolean", "default": True},
        },
        "required": ["room"],
    },
}
TOLD = {
    "g1": "We always sail to Klaipėda with 3 persons.",
    "g2": "I want an outside cabin on ships.",
    "g3": "My customer card number is SH-20/77 b, keep it.",
    "g4": "Write to ola+sea@example.org about ferries.",
    "g5": "On ships I eat porridge and rye bread.",
    "g6": "I am careful and insure everything.",
}
AT = "2025-04-01T12:00"
ASKED = "Book that ferry as always."


def tell(talk: Talk, user: str = "ola") -> Any:
    own = talk.user(user)
    messages = [
        said(t, k, f"2025-03-0{n}T10:00") for n, (k, t) in enumerate(TOLD.items(), 1)
    ]
    own.add(messages, session_id="s")
    return own


def taken(prompt: str, path: str, quote: str, source: str) -> dict[str, Any]:
    return {"path": path, "fact": _source(prompt, source), "quote": quote}


def _source(prompt: str, key: str) -> str:
    return alias(prompt, "f", TOLD[key])


def good(prompt: str) -> dict[str, Any]:
    arguments = {
        "harbour": "klaipėda",
        "cabin": "outside",
        "persons": 3,
        "card": "SH-20/77 b",
        "meals": ["porridge", "rye bread"],
        "insured": True,
        "contact": {"email": "ola+sea@example.org"},
    }
    sources = [
        taken(prompt, "harbour", "klaipėda", "g1"),
        taken(prompt, "cabin", "an outside cabin", "g2"),
        taken(prompt, "persons", "with 3 persons", "g1"),
        taken(prompt, "card", "SH-20/77 b", "g3"),
        taken(prompt, "meals.0", "porridge", "g5"),
        taken(prompt, "meals[1]", "rye bread", "g5"),
        taken(prompt, "insured", "insure everything", "g6"),
        taken(prompt, "contact.email", "ola+sea@example.org", "g4"),
    ]
    return {"arguments": arguments, "sources": sources, "missing": ["contact.phone"]}


def bad(prompt: str) -> dict[str, Any]:
    arguments = {
        "harbour": "Gdańsk",
        "cabin": "3",
        "persons": 0,
        "card": "SH-99",
        "meals": "porridge",
        "insured": "maybe",
        "contact": {"phone": "555"},
        "ghost": "x",
    }
    sources = [
        taken(prompt, "harbour", "We always sail", "g1"),
        taken(prompt, "cabin", "3", "g1"),
        taken(prompt, "persons", "3 persons", "g1"),
        {"path": "card", "fact": "f99", "quote": "SH-99"},
        taken(prompt, "meals", "porridge", "g5"),
        taken(prompt, "contact.phone", "ola", "g4"),
        {"path": "ghost", "fact": "f1"},
    ]
    return {"arguments": arguments, "sources": sources}


@conversation
def ferry_as_always(path: Path) -> Talk:
    talk = Talk(
        path,
        "Every argument from memory: copied, the model's choice, defaults, parts of an object.",
        ToolFill=good,
    ).open()
    ola = tell(talk)
    for policy in ("flag", "drop", "ask"):
        ola.ground(FERRY, ASKED, policy=policy, at=AT)
        ola.ground(FERRY, ASKED, policy=policy, model_may_choose=["insured"], at=AT)
    return talk


@conversation
def ferry_invented(path: Path) -> Talk:
    talk = Talk(
        path,
        "Words that stand nowhere, unknown aliases, values outside the schema, unusable answers.",
        ToolFill=[bad, bad, bad, "no arguments", "no arguments", {"arguments": {}}],
    ).open()
    ola = tell(talk)
    for policy in ("flag", "drop", "ask", "flag", "flag"):
        ola.ground(FERRY, ASKED, policy=policy, at=AT)
    ola.ground(FERRY, " ", at=AT)
    ola.ground(FERRY, ASKED, policy="guess", at=AT)
    ola.ground("ferry", ASKED, at=AT)
    ola.ground(
        {"title": "bad", "type": "object", "properties": {"x": {"type": 5}}},
        ASKED,
        at=AT,
    )
    talk.user("nobody").ground(FERRY, ASKED, at=AT)
    return talk


@conversation
def one_tool_of_several(path: Path) -> Talk:
    def lamp(prompt: str) -> dict[str, Any]:
        if "switch_lamp" not in prompt:
            return {"arguments": {}}
        words = {"path": "room", "fact": "q", "quote": "pantry"}
        named = {"path": "room", "fact": "f0", "quote": "the pantry"}
        return {"arguments": {"room": "pantry"}, "sources": [words, named]}

    talk = Talk(
        path,
        "The tool is chosen; unknown and unusable choices fall back to the best of the ranking.",
        ToolChoice=[
            lambda prompt: {"tool": alias(prompt, "t", "switch lamp")},
            {"tool": "t9"},
            "neither",
            "neither",
        ],
        ToolFill=lamp,
    ).open()
    ola = tell(talk)
    for _ in range(3):
        ola.ground([FERRY, LAMP], "Switch the lamp in the pantry on.", at=AT)
    ola.ground([], "Switch the lamp on.", at=AT)
    return talk


@conversation
def values_that_disagree(path: Path) -> Talk:
    def fill(prompt: str) -> dict[str, Any]:
        codes = [(alias(prompt, "f", one), one) for one in ("1212", "3434")]
        old = alias(prompt, "f", "Old Street")
        cited = [(path, *code) for path in ("code", "door") for code in codes]
        sources = [*cited, ("street", old, "Old Street")]
        return {
            "arguments": {"street": "Old Street"},
            "sources": [
                dict(zip(("path", "fact", "quote"), one, strict=True))
                for one in sources
            ],
            "missing": ["code", "door"],
        }

    parts = {name: {"type": "string"} for name in ("code", "door", "street")}
    tool = {
        "title": "open_door",
        "type": "object",
        "properties": parts,
        "required": ["street"],
    }
    talk = Talk(
        path,
        "Two sources, two values: both are named; what is no longer true fills nothing.",
        Extraction=[
            extraction(memory("The user lives in Old Street 5.", attribute="home")),
            extraction(
                memory("The user lives in New Street 6.", attribute="home"),
                changes=[
                    change(
                        "replaces", "Old Street", "I live in New Street 6", "New Street"
                    )
                ],
            ),
        ],
        ToolFill=fill,
    ).open()
    ola = talk.user("ola")
    ola.add([said("I live in Old Street 5.", "k1", "2025-01-01")], session_id="1")
    ola.flush()
    ola.add(
        [said("I moved, I live in New Street 6 now.", "k2", "2025-02-01")],
        session_id="2",
    )
    ola.flush()
    codes = [said("The door code is 1212.", "k3", "2025-02-02")]
    ola.add(
        [*codes, said("The door code is 3434.", "k4", "2025-02-02")], session_id="3"
    )
    for policy in ("flag", "ask"):
        ola.ground(tool, "Open the door of my street.", policy=policy, at=AT)
    return talk


@conversation
def grounding_as_a_graph(path: Path) -> Talk:
    talk = Talk(
        path,
        "The grounding graph: from messages or a request, tools given first or with the input.",
        ToolFill=good,
    ).open()
    tell(talk)
    given = create_grounding_graph(
        talk.memory, tools=[FERRY], user_id="ola", policy="drop"
    )
    asked = {"messages": [("user", ASKED)]}
    talk.run(
        "create_grounding_graph(tools).invoke", lambda: given.invoke(asked)["call"]
    )
    late = create_grounding_graph(talk.memory)
    request: Any = {"request": ASKED, "tools": [FERRY]}
    config: Any = {"configurable": {"user_id": "ola"}}
    talk.run(
        "create_grounding_graph().invoke", lambda: late.invoke(request, config)["call"]
    )
    talk.run("no user", lambda: late.invoke(request))
    talk.run("no tools", lambda: late.invoke({"request": ASKED}, config))
    return talk
