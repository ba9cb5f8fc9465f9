"""Questions of several hops, and answers of the model that prove nothing."""

from functools import partial
from pathlib import Path
from typing import Any

from langmem_graph import Settings
from langmem_graph.graphs import create_goal_graph, create_recall_graph
from langmem_graph.settings import ReasoningSettings
from tests.golden.support import Talk, alias, conversation, said

FAMILY = {
    "w1": "Bruno is my brother.",
    "w2": "Bruno married Ines in 2018.",
    "w3": "Ines loved the copper kettle.",
    "w4": "I take my coffee black.",
    "w5": "Our dog Taro eats every plant.",
}
ASKED = "What present did my brother's wife love?"
PLAN = {
    "intent": "lookup",
    "central": ["present", "brother's wife"],
    "answer": ["g", "unknown"],
    "subgoals": [
        {
            "atom": "(w:person) is the wife of the user's brother",
            "query": "brother wife",
        },
        {
            "atom": "(w:person) loved (g:thing)",
            "query": "loved present",
            "relation": "entity",
        },
    ],
}


def statement(prompt: str, words: str) -> str:
    return alias(prompt, "s", words)


def prove(prompt: str) -> dict[str, Any]:
    """The wife by the wedding, the present once the wife is known."""
    brother, wedding, kettle = (
        alias(prompt, "f", FAMILY[one]) for one in ("w1", "w2", "w3")
    )
    both = [brother, wedding]
    if "w = Ines" not in prompt:
        return {
            "bindings": [{"variable": "w", "entity": "Ines", "facts": both}],
            "grounded": [{"subgoal": statement(prompt, "wife of"), "facts": both}],
        }
    return {
        "bindings": [{"variable": "g", "entity": "copper kettle", "facts": [kettle]}],
        "grounded": [{"subgoal": statement(prompt, "loved"), "facts": [kettle]}],
    }


def tell(talk: Talk, user: str = "ana", **more: str) -> Any:
    own = talk.user(user)
    for n, (key, text) in enumerate((FAMILY | more).items(), 1):
        own.add([said(text, key, f"2025-03-{n:02}T10:00")], session_id="s")
    return own


def ask_graph(talk: Talk, query: str, **options: Any) -> Any:
    """A recall graph's outcome and its stream, whose parallel events come in any order."""
    graph = create_recall_graph(talk.memory, user_id="ana", **options)
    given = {"messages": [("user", query)]}
    return talk.run(
        "create_recall_graph().invoke", lambda: graph.invoke(given), query=query
    )


@conversation
def two_hops(path: Path) -> Talk:
    talk = Talk(
        path,
        "A question of two hops: split, searched, bound, answered; every form of call.",
        GoalPlan=PLAN,
        Unification=prove,
        GroundedAnswer=[
            {"known": True, "answer": "The copper kettle.", "facts": ["f1", "f77"]},
            {"known": True, "answer": "A car.", "facts": ["f77"]},
            {"known": True, "answer": "A car again.", "facts": []},
            {"known": False, "answer": "Nobody said."},
        ],
    ).open()
    ana = tell(talk)
    ana.recall(ASKED, mode="reason", at="2025-04-01T12:00")
    ana.recall(
        ASKED, mode="auto", at="2025-04-01T12:00", k=2, max_tokens=200, in_view=["w3"]
    )
    for _ in range(3):
        ask_graph(talk, ASKED, answer=True)
    events: list[Any] = []
    ana.recall(ASKED, mode="reason", at="2025-04-01T12:00", on_event=events.append)
    talk.run("events", lambda: sorted(one["event"] for one in events))
    return talk


@conversation
def refused_proofs(path: Path) -> Talk:
    def invent(prompt: str) -> dict[str, Any]:
        kettle, coffee = (
            alias(prompt, "f", FAMILY["w3"]),
            alias(prompt, "f", FAMILY["w4"]),
        )
        return {
            "bindings": [
                {"variable": "q", "entity": "Ines", "facts": [kettle]},
                {"variable": "g", "entity": "copper kettle", "facts": ["f99"]},
                {"variable": "g", "entity": "silver spoon", "facts": [kettle]},
                {
                    "variable": "w",
                    "entity": "2018",
                    "facts": [alias(prompt, "f", FAMILY["w2"])],
                },
            ],
            "grounded": [
                {"subgoal": "s9", "facts": [coffee]},
                {"subgoal": statement(prompt, "loved"), "facts": ["f99"]},
            ],
        }

    def refine(prompt: str) -> dict[str, Any]:
        own = statement(prompt, "wife of")
        rows = [
            {"atom": "(w:person) is Marta", "query": "is Marta", "for_subgoal": own},
            {
                "atom": "(w:person) married the brother",
                "query": "married",
                "for_subgoal": own,
            },
            {
                "atom": "(w:person) wed the brother",
                "query": "wed brother",
                "for_subgoal": own,
            },
            {"atom": "", "query": "", "for_subgoal": statement(prompt, "loved")},
            {"atom": "(w:person) loved (g:thing)", "query": "x", "for_subgoal": own},
            {"atom": "(g:thing) is copper", "query": "copper", "for_subgoal": "s44"},
            {"atom": "who is brother", "query": "brother wife", "for_subgoal": own},
        ]
        return {"look_for": rows}

    def disprove(prompt: str) -> dict[str, Any]:
        return invent(prompt) | refine(prompt)

    talk = Talk(
        path,
        "Bindings and refinements that cite, name or invent what is not there.",
        GoalPlan=PLAN,
        Unification=[disprove, "nothing usable", "nothing usable", {}],
    ).open()
    ana = tell(talk)
    ana.recall(ASKED, mode="reason", at="2025-04-01T12:00")
    ask_graph(talk, ASKED, answer=True, mode="reason")
    return talk


@conversation
def facts_that_disagree(path: Path) -> Talk:
    def both(prompt: str) -> dict[str, Any]:
        one, other = (
            alias(prompt, "f", "gate code is 1111"),
            alias(prompt, "f", "gate code is 2222"),
        )
        return {
            "bindings": [
                {"variable": "c", "entity": "1111", "facts": [one]},
                {"variable": "c", "entity": "2222", "facts": [other]},
            ],
            "grounded": [{"subgoal": "s1", "facts": [one, other]}],
            "disagree": ["c"],
        }

    talk = Talk(
        path,
        "Two facts of one day give two values: nothing decides, both are shown.",
        GoalPlan={
            "answer": ["c"],
            "subgoals": [{"atom": "the gate code is (c:number)", "query": "gate code"}],
        },
        Unification=both,
    ).open()
    ana = talk.user("ana")
    ana.add([said("The gate code is 1111.", "d1", "2025-03-01T10:00")], session_id="a")
    ana.add([said("The gate code is 2222.", "d2", "2025-03-01T10:00")], session_id="b")
    ana.recall("What is the gate code?", mode="reason", at="2025-04-01T12:00")
    ask_graph(talk, "What is the gate code?", answer=True)
    return talk


@conversation
def plans_of_all_kinds(path: Path) -> Talk:
    talk = Talk(
        path,
        "Plans: enough as it is, unusable, without statements, unreachable, too many statements.",
        GoalPlan=[
            {"facts": ["f1", "f66"], "sure": True},
            "no plan",
            "no plan",
            {"intent": "chat"},
            ConnectionError("gone"),
            ConnectionError("gone"),
            {
                "subgoals": [
                    {"atom": f"fact {n} of (x:thing)", "query": ""} for n in range(6)
                ]
            },
            {"subgoals": [{"atom": "", "query": " "}]},
        ],
    ).open(reasoning__subgoals=3, reasoning__depth=1)
    ana = tell(talk)
    for _ in range(6):
        ana.recall("How do I take my coffee?", mode="reason", at="2025-04-01T12:00")
    return talk


@conversation
def budgets_of_reasoning(path: Path) -> Talk:
    talk = Talk(
        path,
        "One call, then two: the loop ends with what it has.",
        GoalPlan=PLAN,
        Unification=prove,
    ).open(reasoning__max_calls=1)
    tell(talk).recall(ASKED, mode="reason", at="2025-04-01T12:00")
    talk.open(reasoning__max_calls=2)
    talk.user("ana").recall(ASKED, mode="reason", at="2025-04-01T12:00")
    talk.open(reasoning__max_tokens=1_000, context__k=2, reasoning__plan_facts=2)
    talk.user("ana").recall(ASKED, mode="auto", at="2025-04-01T12:00")
    return talk


@conversation
def split_another_way(path: Path) -> Talk:
    other = {
        "answer": ["g"],
        "subgoals": [{"atom": "Ines loved (g:thing)", "query": "Ines loved"}],
    }

    def second(prompt: str) -> dict[str, Any]:
        kettle = alias(prompt, "f", FAMILY["w3"])
        own = statement(prompt, "Ines loved")
        return {
            "bindings": [
                {"variable": "g", "entity": "copper kettle", "facts": [kettle]}
            ],
            "grounded": [{"subgoal": own, "facts": [kettle]}],
        }

    talk = Talk(
        path,
        "The first way to split a request proves nothing, the second does.",
        GoalPlan=[PLAN, other],
        Unification=[{}, second],
    ).open(reasoning__breadth=2, reasoning__depth=0)
    tell(talk).recall(ASKED, mode="reason", at="2025-04-01T12:00")
    return talk


@conversation
def goals_over_other_stores(path: Path) -> Talk:
    talk = Talk(
        path,
        "The goal loop over functions: texts, dicts with dates, nothing, one that fails.",
        GoalPlan=PLAN,
        Unification=prove,
    )
    texts = list(FAMILY.values())

    def rows(query: str, k: int) -> list[Any]:
        dated = [{"text": text, "id": f"x{n % 4}", "date": "2025-03-01"} for n, text in
                 enumerate(texts)]  # fmt: skip
        return [*dated, {"content": "undated", "at": "soon"}, 5, ""]

    def failing(query: str, k: int) -> list[Any]:
        raise TimeoutError("the store is out")

    for name, search in (
        ("texts", lambda query, k: texts[:k]),
        ("rows", rows),
        ("one text", lambda query, k: texts[0]),
        ("nothing", lambda query, k: None),
        ("failing", failing),
    ):
        settings = Settings(
            reasoning=ReasoningSettings(seconds=600, call_seconds=60),
            encoding="estimated",
        )
        graph = create_goal_graph(search, model=talk.model, settings=settings)
        work = partial(graph.invoke, {"query": ASKED, "now": "2025-04-01T12:00"})
        talk.run(f"create_goal_graph({name}).invoke", lambda work=work: _done(work()))
    talk.run(
        "create_goal_graph(no function)", lambda: create_goal_graph(5, model=talk.model)
    )  # type: ignore[arg-type]
    talk.run("empty query", lambda: graph.invoke({"query": " "}))
    return talk


COUNTED = {
    "calls",
    "repairs",
    "input_tokens",
    "output_tokens",
    "tokens_exact",
    "unreachable",
    "problems",
}


def _done(output: dict[str, Any]) -> dict[str, Any]:
    """What the loop came to."""
    usage = {k: v for k, v in output["usage"].items() if k in COUNTED}
    return {"proof": output["proof"], "usage": usage, "trace": output["trace"]}
