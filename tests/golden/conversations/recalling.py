"""Contexts: acts that memory speaks against, vague turns, small talk, settings."""

from pathlib import Path
from typing import Any

from langmem_graph.graphs import create_recall_graph
from tests.golden.support import (
    Talk,
    alias,
    change,
    conversation,
    extraction,
    memory,
    said,
)

PETS = [
    "Our dog Taro eats every plant.",
    "I am allergic to walnuts.",
    "The flat has no lift.",
]


@conversation
def risky_acts(path: Path) -> Talk:
    def against(prompt: str) -> dict[str, Any]:
        dog = alias(prompt, "f", "Taro eats") if "Taro eats" in prompt else "f88"
        named = [
            {"fact": dog, "why": "The dog may eat it."},
            {"fact": "f77", "why": "No fact."},
        ]
        return {"against": named}

    def plan(prompt: str) -> dict[str, Any]:
        risks = [
            {
                "claim": "Lilies are poisonous to pets.",
                "examples": ["Our dog Taro eats every plant.", " "],
            },
            {"claim": "  "},
        ]
        return {"intent": "act", "sure": True, "risks": risks, **against(prompt)}

    talk = Talk(
        path,
        "Requests that memory speaks against: facts in view, facts found for risks; unusable ones.",
        Extraction=[
            extraction(
                memory("The user's dog Taro eats every plant.", "m1", subject="Taro"),
                memory("The user is allergic to walnuts.", "m2", attribute="allergy"),
            )
        ],
        GoalPlan=plan,
        Consequences=[against, "no facts", "no facts", {"against": []}, against],
        GroundedAnswer=lambda prompt: {
            "known": True,
            "answer": "Careful.",
            "facts": ["f1"],
        },
    ).open(reasoning__risk_floor=0.1, reasoning__plan_facts=1, context__k=1)
    ana = talk.user("ana")
    messages = [
        said(text, f"r{n}", f"2025-03-0{n}T10:00") for n, text in enumerate(PETS, 1)
    ]
    ana.add(messages, session_id="s")
    ana.flush()
    for query in ("Please order a bunch of lilies.", "Bake a cake.", "Buy me a bed."):
        ana.recall(query, mode="auto", at="2025-04-01T12:00")
    graph = create_recall_graph(talk.memory, user_id="ana", answer=True)
    given = {"messages": [("user", "Can I put lilies on the table?")]}
    talk.run("create_recall_graph(answer).invoke", lambda: graph.invoke(given))
    return talk


@conversation
def vague_turns(path: Path) -> Talk:
    talk = Talk(
        path,
        "Going on without saying what about; small talk; nothing that is known.",
        Extraction=[
            extraction(
                memory(
                    "The user writes a thesis on moss.",
                    facet="project_state",
                    project="thesis",
                    attribute="thesis",
                ),
                memory(
                    "The assistant shall answer in English.", "m2", kind="instruction"
                ),
                memory(
                    "The user prefers tables.", "m2", kind="preference", facet="persona"
                ),
            )
        ],
        GoalPlan={"intent": "vague"},
    ).open()
    lea = talk.user("lea")
    first = said("I write my thesis on moss, chapter 2 is open.", "v1")
    lea.add([first, said("Answer in English, I prefer tables.", "v2")], session_id="s")
    lea.flush()
    for query in ("What's next?", "Thanks!", "ok, now what?", "Where were we?"):
        lea.recall(query, at="2025-03-10")
        lea.recall(query, mode="auto", at="2025-03-10T08:00")
    lea.recall("What's next?", mode="reason", at="2025-03-10T08:00")
    lea.recall("zzzz qqqq", at="2025-03-10")
    talk.user("nobody").recall("anything", mode="reason", at="2025-03-10T08:00")
    return talk


@conversation
def budgets_of_a_context(path: Path) -> Talk:
    talk = Talk(
        path, "What is in view is not quoted; small budgets; few candidates."
    ).open(context__k=5, context__excerpt_tokens=20, ranking__method="rrf")
    sam = talk.user("sam")
    texts = [
        f"Box {n} in the attic holds the winter things of year {2000 + n}."
        for n in range(9)
    ]
    messages = [
        said(text, f"b{n}", f"2025-01-0{n + 1}T10:00") for n, text in enumerate(texts)
    ]
    sam.add(messages, session_id="s")
    sam.recall("winter things in the attic", at="2025-02-01")
    sam.recall("winter things", at="2025-02-01", k=2)
    sam.recall("winter things", at="2025-02-01", max_tokens=60)
    sam.recall("winter things", at="2025-02-01", in_view=["b1", texts[2]])
    sam.search_conversation("box 4 attic", 3, explain=True)
    return talk


@conversation
def parts_switched_off(path: Path) -> Talk:
    talk = Talk(
        path,
        "Reasoning without the goal loop, without risks, without edges and profile.",
        Extraction=[
            extraction(memory("The user's dog Taro eats every plant.", subject="Taro"))
        ],
        GoalPlan={
            "intent": "act",
            "sure": True,
            "risks": [{"claim": "The dog may eat it.", "examples": ["Taro eats"]}],
        },
        Consequences={"against": [{"fact": "f1", "why": "The dog may eat it."}]},
    ).open()
    talk.user("ana").add([said(PETS[0], "o1")], session_id="s")
    talk.user("ana").flush()
    for off in (
        {"reasoning__use_goals": False},
        {"reasoning__use_counterfactual": False},
        {"reasoning__use_goals": False, "reasoning__use_counterfactual": False},
        {
            "reasoning__use_causal_edges": False,
            "reasoning__use_semantic_edges": False,
            "reasoning__use_profile": False,
        },
        {"reasoning__plan_facts": 1, "context__k": 1, "reasoning__risk_facts": 1},
    ):
        talk.open(**off)
        talk.user("ana").recall(
            "Please order a fern.", mode="reason", at="2025-04-01T12:00"
        )
    return talk


@conversation
def outdated_words(path: Path) -> Talk:
    talk = Talk(
        path,
        "A message whose record is superseded is quoted as no longer true.",
        Extraction=[
            extraction(memory("The user's gate code is 1111.", attribute="gate code")),
            extraction(
                memory("The user's gate code is 2222.", attribute="gate code"),
                changes=[change("replaces", "1111", "it is now 2222", "2222")],
            ),
        ],
        GroundedAnswer=lambda prompt: {
            "known": True,
            "answer": "It is 2222.",
            "facts": [alias(prompt, "f", "2222")],
        },
    ).open()
    ron = talk.user("ron")
    ron.add([said("The gate code is 1111.", "g1", "2025-01-01")], session_id="1")
    ron.flush()
    ron.add(
        [said("The gate code has changed, it is now 2222.", "g2", "2025-02-01")],
        session_id="2",
    )
    ron.flush()
    ron.recall("What is the gate code?", at="2025-03-01")
    ron.recall("What is the gate code?", mode="reason", at="2025-03-01T10:00")
    ron.search_records("gate code", as_of="2025-01-15")
    graph = create_recall_graph(talk.memory, user_id="ron", answer=True, mode="reason")
    given = {"messages": [("user", "What is the gate code?")]}
    talk.run("create_recall_graph(answer).invoke", lambda: graph.invoke(given))
    empty = {"messages": [("user", " ")]}
    talk.run("create_recall_graph(answer).invoke empty", lambda: graph.invoke(empty))
    return talk
