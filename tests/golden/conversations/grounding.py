"""Tool calls filled from memory."""

from pathlib import Path
from typing import Any

from langmem_graph.graphs import create_grounding_graph
from tests.golden.support import Talk, alias, conversation, decisions, extraction, memory, said

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
        "properties": {"room": {"type": "string"}, "on": {"type": "boolean", "default": True}},
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
    messages = [said(t, k, f"2025-03-0{n}T10:00") for n, (k, t) in enumerate(TOLD.items(), 1)]
    own.add(messages, session_id="s")
    return own


def copy(prompt: str, slot: str, words: str, source: str) -> dict[str, Any]:
    return {"slot": slot, "how": "copy", "words": words, "sources": [_source(prompt, source)]}


def _source(prompt: str, key: str) -> str:
    return alias(prompt.split("Candidates:", maxsplit=1)[0], "f", TOLD[key])


def _candidate(prompt: str, raw: str) -> str:
    return alias(prompt, "v", f'"{raw}"')


def good(prompt: str) -> dict[str, Any]:
    careful = [_source(prompt, "g6")]
    return {
        "slots": [
            copy(prompt, "harbour", "klaipėda", "g1"),
            copy(prompt, "cabin", "outside", "g2"),
            {"slot": "persons", "how": "copy", "candidate": _candidate(prompt, "3")},
            copy(prompt, "card", "SH-20/77 b", "g3"),
            copy(prompt, "meals", "porridge", "g5"),
            copy(prompt, "meals", "rye bread", "g5"),
            {"slot": "insured", "how": "infer", "value": "true", "sources": careful},
            copy(prompt, "contact.email", "ola+sea@example.org", "g4"),
            {"slot": "contact.phone", "how": "missing"},
        ]
    }


def bad(prompt: str) -> dict[str, Any]:
    return {
        "slots": [
            copy(prompt, "harbour", "Gdańsk", "g1"),
            {"slot": "cabin", "how": "copy", "candidate": _candidate(prompt, "3")},
            {"slot": "persons", "how": "infer", "value": "0", "sources": [_source(prompt, "g1")]},
            {"slot": "card", "how": "infer", "value": "SH-99", "sources": ["f99"]},
            {"slot": "card", "how": "copy", "candidate": "v99", "sources": ["f99"]},
            {"slot": "meals", "how": "default"},
            {"slot": "insured", "how": "infer", "value": "maybe", "sources": ["f1"]},
            {"slot": "contact.phone", "how": "conflict", "sources": ["f99"]},
            {"slot": "ghost", "how": "copy", "words": "x"},
        ]
    }


@conversation
def ferry_as_always(path: Path) -> Talk:
    talk = Talk(
        path,
        "Every argument from memory: copied, inferred, defaults, parts of an object.",
        ToolFill=good,
        Verdicts=[
            {"verdicts": [{"number": 1, "follows": True}]},
            {"verdicts": [{"number": 1, "follows": False}, {"number": 9, "follows": True}]},
            {"verdicts": []},
            "no verdict",
            "no verdict",
        ],
    ).open()
    ola = tell(talk)
    for policy in ("flag", "drop", "ask", "flag"):
        ola.ground(FERRY, ASKED, policy=policy, at=AT)
    return talk


@conversation
def ferry_invented(path: Path) -> Talk:
    talk = Talk(
        path,
        "Words that stand nowhere, unknown aliases, values outside the schema, unusable answers.",
        ToolFill=[bad, bad, bad, "no slots", "no slots", {"slots": []}],
        Verdicts={"verdicts": [{"number": 1, "follows": True}]},
    ).open()
    ola = tell(talk)
    for policy in ("flag", "drop", "ask", "flag", "flag"):
        ola.ground(FERRY, ASKED, policy=policy, at=AT)
    ola.ground(FERRY, " ", at=AT)
    ola.ground(FERRY, ASKED, policy="guess", at=AT)
    ola.ground("ferry", ASKED, at=AT)
    ola.ground({"title": "bad", "type": "object", "properties": {"x": {"type": 5}}}, ASKED, at=AT)
    talk.user("nobody").ground(FERRY, ASKED, at=AT)
    return talk


@conversation
def one_tool_of_several(path: Path) -> Talk:
    def lamp(prompt: str) -> dict[str, Any]:
        if "switch_lamp" not in prompt:
            return {"slots": []}
        words = {"slot": "room", "how": "copy", "words": "pantry", "sources": ["q"]}
        named = {"slot": "room", "how": "copy", "words": "pantry", "sources": ["f0"]}
        return {"slots": [words, named]}

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
        shown = prompt.split("Candidates:", maxsplit=1)[0]
        codes = [alias(shown, "f", one) for one in ("1212", "3434")]
        old = alias(shown, "f", "Old Street")
        return {
            "slots": [
                {"slot": "code", "how": "copy", "words": "1212", "sources": [codes[0]]},
                {"slot": "code", "how": "copy", "words": "3434", "sources": [codes[1]]},
                {"slot": "door", "how": "conflict", "sources": codes},
                {"slot": "street", "how": "copy", "words": "Old Street", "sources": [old]},
            ]
        }

    parts = {name: {"type": "string"} for name in ("code", "door", "street")}
    tool = {"title": "open_door", "type": "object", "properties": parts, "required": ["street"]}
    talk = Talk(
        path,
        "Two sources, two values: both are named; what is no longer true fills nothing.",
        Extraction=[
            extraction(memory("The user lives in Old Street 5.", attribute="home")),
            extraction(memory("The user lives in New Street 6.", attribute="home")),
        ],
        Reconciliation=decisions(("update", "New Street", "Old Street")),
        ToolFill=fill,
    ).open()
    ola = talk.user("ola")
    ola.add([said("I live in Old Street 5.", "k1", "2025-01-01")], session_id="1")
    ola.flush()
    ola.add([said("I moved, I live in New Street 6 now.", "k2", "2025-02-01")], session_id="2")
    ola.flush()
    codes = [said("The door code is 1212.", "k3", "2025-02-02")]
    ola.add([*codes, said("The door code is 3434.", "k4", "2025-02-02")], session_id="3")
    for policy in ("flag", "ask"):
        ola.ground(tool, "Open the door of my street.", policy=policy, at=AT)
    return talk


@conversation
def grounding_as_a_graph(path: Path) -> Talk:
    talk = Talk(
        path,
        "The grounding graph: from messages or a request, tools given first or with the input.",
        ToolFill=good,
        Verdicts={"verdicts": [{"number": 1, "follows": True}]},
    ).open()
    tell(talk)
    given = create_grounding_graph(talk.memory, tools=[FERRY], user_id="ola", policy="drop")
    asked = {"messages": [("user", ASKED)]}
    talk.run("create_grounding_graph(tools).invoke", lambda: given.invoke(asked)["call"])
    late = create_grounding_graph(talk.memory)
    request: Any = {"request": ASKED, "tools": [FERRY]}
    config: Any = {"configurable": {"user_id": "ola"}}
    talk.run("create_grounding_graph().invoke", lambda: late.invoke(request, config)["call"])
    talk.run("no user", lambda: late.invoke(request))
    talk.run("no tools", lambda: late.invoke({"request": ASKED}, config))
    return talk
