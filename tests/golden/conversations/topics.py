"""Topic tracks, the profile, and causes between records."""

from pathlib import Path
from typing import Any

from tests.golden.support import Talk, alias, conversation, extraction, memory, said

LONG = "The user keeps bees since 2020. Two hives stand behind the house. " * 3


def track(name: str, *evidence: str, **fields: Any) -> dict[str, Any]:
    told = {"title": name.title(), "summary": f"About {name}.", "narrative": LONG}
    return {"name": name, "evidence": list(evidence), **told, **fields}


def three(*texts: str, **fields: Any) -> Any:
    """An extraction of three memories of one message each: so many make a round due."""
    return extraction(
        *(
            memory(text, f"m{n}", attribute=text, **fields)
            for n, text in enumerate(texts, 1)
        )
    )


@conversation
def rounds_of_topics(path: Path) -> Talk:
    rounds = [
        ("The user keeps bees.", "The user sells honey.", "The user loves mead."),
        ("The user bought a third hive.", "Honey costs 9 euros.", "A bear was seen."),
        (
            "The user's bees are Carniolan.",
            "The user paints hives.",
            "The bear came back.",
        ),
        ("The user sells wax.", "A swarm left.", "The bear was caught."),
        ("A queen was marked.", "A hive was sold.", "The user bottled mead."),
    ]
    talk = Talk(
        path,
        "Edits that are made, refused and made later; a track absorbs another; the profile.",
        Extraction=[
            *(three(*texts, kind="preference") for texts in rounds),
            extraction(memory("The user has two beehives left.", attribute="hives")),
        ],
        TopicRound=[
            {"tracks": [track("bees", "r1", "r9"), track("Honey & money!", "r2")]},
            {
                "tracks": [
                    track("bees", "r1", narrative="Short."),
                    {
                        "name": "honey-money",
                        "append": "It costs 9 euros.",
                        "evidence": ["r2"],
                    },
                    track("empty"),
                ]
            },
            "no JSON",
            "still none",
            {"tracks": [track("bees", "r1", "r2", absorbs=["honey-money", "nothing"])]},
            {"tracks": []},
        ],
        ProfileText=[
            {"text": "Keeps [bees](topics/bees.md).", "topics": ["bees", "ghost"]},
            {"text": "x" * 2_001, "topics": []},
            {"text": "", "topics": []},
            {"text": "Keeps bees and sells honey.", "topics": ["bees"]},
        ],
    ).open()
    bob = talk.user("bob")
    for n, texts in enumerate(rounds, 1):
        told = [
            said(text, f"b{n}{k}", f"2025-0{n}-01T10:0{k}")
            for k, text in enumerate(texts)
        ]
        bob.add(told, session_id=f"{n}")
        bob.flush()
        for name in bob.files():
            bob.read_file(name)
    bob.add([said("Two hives are left.", "b61", "2025-06-01")], session_id="6")
    bob.flush()
    bob.recall("What do you know about me?", mode="reason", at="2025-06-02")
    bob.forget(message="b10")
    bob.files()
    bob.flush()
    return talk


@conversation
def long_story(path: Path) -> Talk:
    ferry = "The ferry crossed the strait on day number {}, in rain and wind, and came back. "
    story = "".join(ferry.format(n) for n in range(23))
    added = {"name": "ferry", "append": ferry.format(24) * 4, "evidence": ["r1"]}
    talk = Talk(
        path,
        "A narrative without room for more: it is told in fewer words, or the record waits.",
        Extraction=[
            three("The ferry sails daily.", "The ferry is blue.", "The ferry is old."),
            three("The ferry had a fire.", "The ferry is green.", "The ferry is slow."),
            three("The ferry was sold.", "The ferry is new.", "The ferry is fast."),
        ],
        TopicRound=[
            {"tracks": [track("ferry", "r1", "r2", "r3", narrative=story)]},
            {"tracks": [added]},
            {"tracks": [track("ferry", "r1", narrative=story[:1_200])]},
            {"tracks": [added | {"append": "and on. " * 120}]},
            {"tracks": [track("another", "r1")]},
        ],
    ).open()
    cap = talk.user("cap")
    for n in (1, 2, 3):
        told = [
            said(f"Of the ferry: {n}, {k}.", f"f{n}{k}", f"2025-0{n}-01")
            for k in range(3)
        ]
        cap.add(told, session_id=f"{n}")
        cap.flush()
        cap.read_file("topics/ferry.md")
    return talk


@conversation
def causes_between_records(path: Path) -> Talk:
    def pairs(prompt: str) -> dict[str, Any]:
        rain, flood = alias(prompt, "r", "rained"), alias(prompt, "r", "flooded")
        tulips = alias(prompt, "r", "tulips")
        return {
            "pairs": [
                {"cause": flood, "effect": rain, "mechanism": "water", "sure": "yes"},
                {"cause": rain, "effect": tulips, "mechanism": "none", "sure": "no"},
                {"cause": "r77", "effect": rain},
                {"cause": rain, "effect": rain},
            ]
        }

    talk = Talk(
        path,
        "Causes: told by time, unknown names and a no left out; an answer that cannot be used.",
        Extraction=[
            three(
                "It rained on the user's cellar all night.",
                "The user's cellar was flooded that night.",
                "The user likes tulips.",
            ),
            three(
                "The user's cellar pump broke that night.",
                "The user's cellar dried that night.",
                "The user likes roses.",
            ),
            extraction(memory("The user's cellar is empty.", attribute="cellar")),
        ],
        CausalPairs=[pairs, "broken", "broken"],
    ).open(extraction__cluster_max_distance=0.9, extraction__semantic_floor=0.1)
    flo = talk.user("flo")
    told = [
        ("It rained all night.", "A flood.", "I like tulips."),
        ("It broke.", "Dry.", "Roses!"),
    ]
    for n, texts in enumerate(told, 1):
        messages = [
            said(text, f"c{n}{k}", f"2025-0{n}-0{k + 1}")
            for k, text in enumerate(texts)
        ]
        flo.add(messages, session_id=f"{n}")
        flo.flush()
    flo.add([said("The cellar is empty.", "c31", "2025-03-01")], session_id="3")
    flo.flush()
    flo.recall(
        "Please rent a room in the cellar that rained.", mode="reason", at="2025-04-01"
    )
    flo.export_records()
    return talk
