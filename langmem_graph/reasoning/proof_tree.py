"""The proof of a recall as a tree: goals with their parts and facts, made from its trace."""

from collections import defaultdict
from typing import Any

from langmem_graph.schemas import FrozenModel, Recall


class ProofGoal(FrozenModel):
    """One statement that had to be proved."""

    atom: str
    grounded: bool
    bindings: dict[str, str]
    """Its variables for which an entity was found."""
    facts: list[str]
    """Ids of the facts that prove it."""
    parts: list["ProofGoal"]
    """The goals that it was split or refined into."""


def named_facts(found: Recall) -> list[str]:
    """Ids of the facts that one look was enough to name."""
    looks = [event for event in found.trace if event["event"] == "memory_goal"]
    return [name for event in looks for name in event["sufficient"]]


def proof_tree(found: Recall) -> list[ProofGoal]:
    """The goals that the question was split into; of several ways, the one that counts."""
    proved: dict[str, dict[str, Any]] = {}
    children: dict[str | None, list[dict[str, Any]]] = defaultdict(list)
    for event in found.trace:
        taken = event["event"] == "memory_subgoal" and not event.get("again")
        if taken or (event["event"] == "memory_refinement" and event["accepted"]):
            children[event.get("parent")].append(event)
        if event["event"] == "memory_proof":
            proved = {goal["id"]: goal for goal in event["subgoals"]}
    entities = found.reasoning.bindings if found.reasoning else {}

    def below(parent: str | None) -> list[ProofGoal]:
        goals = [g for g in children.get(parent, []) if not proved or g["id"] in proved]
        return [made(goal) for goal in goals]

    def made(goal: dict[str, Any]) -> ProofGoal:
        proof = proved.get(goal["id"], {})
        return ProofGoal(
            atom=goal["atom"],
            grounded=bool(proof.get("grounded")),
            bindings={n: e for n, e in entities.items() if f"({n}:" in goal["atom"]},
            facts=proof.get("facts", []),
            parts=below(goal["id"]),
        )

    return below(None)
