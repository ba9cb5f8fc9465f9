"""Topic tracks, the profile, and causes between records."""

from pathlib import Path
from typing import Any

from tests.golden.support import Talk, alias, conversation, extraction, memory, said

LONG = "The user keeps bees since 2020. Two hives stand behind the house. " * 3


def track(name: str, *evidence: str, **fields: Any) -> dict[str, Any]:
    told = {"title": name.title(), "summary": f"About {name}.", "narrative": LONG}
    return {"name": name, "evidence": list(evidence), **told, **fields}


@conversation
def rounds_of_topics(path: Path) -> Talk:
    talk = Talk(
        path,
        "Rounds that are kept, repaired, refused; one track absorbs another; the profile.",
        Extraction=[
            extraction(
                memory("The user keeps bees.", attribute="hobby"),
                memory("The user sells honey.", attribute="business"),
            ),
            extraction(memory("The user bought a third hive.", kind="event")),
            extraction(memory("The user's bees are Carniolan.", attribute="bees")),
            extraction(memory("The user paints the hives blue.", attribute="hive colour")),
        ],
        TopicRound=[
            {"tracks": [track("bees", "r1", "r9"), track("Honey & money!", "r2")]},
            {"tracks": [track("bees", "r1", narrative="Short.")]},
            {"tracks": [track("bees", "r1", narrative="Still short.")]},
            {"tracks": [track("empty")]},
            {"tracks": [track("bees", "r1", "r2", absorbs=["honey-money", "nothing"])]},
            "no JSON",
            "still none",
            {"tracks": []},
        ],
        ProfileText=[
            {"text": "Keeps [bees](topics/bees.md).", "topics": ["bees", "ghost"]},
            {"text": "Names no topic.", "topics": []},
            {"text": "Keeps bees and sells honey.", "topics": ["bees"]},
        ],
    ).open()
    bob = talk.user("bob")
    texts = [
        "I keep bees and sell honey.",
        "I bought a third hive.",
        "My bees are Carniolan.",
        "I paint the hives blue.",
    ]
    for n, text in enumerate(texts, 1):
        bob.add([said(text, f"b{n}", f"2025-0{n}-01T10:00")], session_id=f"{n}")
        bob.flush()
        for name in bob.files():
            bob.read_file(name)
    bob.flush()
    bob.recall("What do you know about me?", mode="reason", at="2025-06-01")
    bob.forget(message="b1")
    bob.files()
    bob.flush()
    return talk


@conversation
def causes_between_records(path: Path) -> Talk:
    def pairs(prompt: str) -> dict[str, Any]:
        rain, flood = alias(prompt, "r", "rained"), alias(prompt, "r", "flooded")
        return {
            "pairs": [
                {"cause": flood, "effect": rain},
                {"cause": "r77", "effect": rain},
                {"cause": rain, "effect": rain},
            ]
        }

    talk = Talk(
        path,
        "Causes: told by time, with unknown names left out; an answer that cannot be used.",
        Extraction=[
            extraction(
                memory("It rained on the user's cellar all night.", "m1", kind="event"),
                memory("The user's cellar was flooded that night.", "m2", kind="event"),
            ),
            extraction(
                memory("The user's cellar pump broke that night.", "m1", kind="event"),
                memory("The user's cellar dried that night.", "m2", kind="event"),
            ),
        ],
        CausalPairs=[pairs, "broken", "broken"],
    ).open(extraction__cluster_max_distance=0.9, extraction__semantic_floor=0.1)
    flo = talk.user("flo")
    first = [said("It rained all night.", "c1", "2025-01-01"), said("A flood.", "c2", "2025-01-02")]
    flo.add(first, session_id="1")
    flo.flush()
    second = [said("The pump broke.", "c3", "2025-01-03"), said("It dried.", "c4", "2025-01-04")]
    flo.add(second, session_id="2")
    flo.flush()
    flo.recall("Please rent a room in the cellar that rained.", mode="reason", at="2025-02-01")
    flo.export_records()
    return talk
