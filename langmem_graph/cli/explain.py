"""`langmem-graph explain`: the reasoning about a question as a tree."""

from typing import Any

from rich.text import Text
from rich.tree import Tree

from langmem_graph.cli.printing import console, label_line, note, printable
from langmem_graph.reasoning.proof import ProofGoal, named_facts, proof_tree
from langmem_graph.results import Fact, Recall

_OUTCOMES = {
    "grounded": ("proved", "green"),
    "partial": ("proved in part", "yellow"),
    "conflict": ("facts disagree", "red"),
    "exhausted": ("not found in memory", "yellow"),
    "budget": ("the budget was used up", "yellow"),
    None: ("nothing to prove", "dim"),
}


def watch(event: dict[str, Any]) -> None:
    """Print one dim line for each step as it happens."""
    shown = {
        "memory_subgoal": "to prove: {atom}",
        "memory_retrieved": "looked for “{query}”: {facts} facts",
        "memory_list": "looked for further items: {facts} facts",
        "memory_refinement": "refined: {atom}",
        "memory_binding": "{variable} = {entity}",
        "memory_risk": "risk: {claim}",
    }.get(event["event"])
    if shown is None or ("atom" in shown and "atom" not in event):
        return
    fields = {**event, "facts": len(event.get("facts") or [])}
    refused = "" if event.get("accepted", True) else f" (refused: {event.get('reason')})"
    note(f"  {shown.format(**fields)}{refused}")


def show(question: str, found: Recall) -> None:
    """Print the proof, contradictions and risks, and the cost."""
    reasoning = found.reasoning
    assert reasoning is not None  # of a recall with reasoning
    facts = {fact.id: fact for fact in found.facts}
    words, style = _OUTCOMES[reasoning.status]
    if reasoning.unusable:
        words = f"{words}; an answer of the model could not be used"
    tree = Tree(Text.assemble((printable(question), "bold"), "  ", (words, style)))
    _add_facts(tree, named_facts(found), facts)
    _add_goals(tree, proof_tree(found), facts)
    for conflict in reasoning.conflicts:
        branch = tree.add(Text(printable(f"facts disagree about {conflict.variable}"), style="red"))
        for value, ids in conflict.values.items():
            _add_facts(branch.add(Text(printable(value))), ids, facts)
    for risk in reasoning.risks:
        label = "" if risk.basis == "memory" else "  (general knowledge)"
        branch = tree.add(Text.assemble(("risk ", "red"), printable(risk.claim), (label, "dim")))
        _add_facts(branch, risk.facts, facts)
    for overlap in reasoning.overlaps:
        tree.add(Text.assemble(("at the same time ", "red"), printable(overlap)))
    if reasoning.unresolved:
        tree.add(Text.assemble(("open ", "yellow"), printable(", ".join(reasoning.unresolved))))
    console.print(tree)
    report = found.report
    spent = f"{report.input_tokens:,} + {report.output_tokens:,} tokens"
    note(f"{report.llm_calls} model calls, {spent}, {report.milliseconds['total']:,.0f} ms")
    for problem in report.problems:
        note(f"  problem: {problem}")


def _add_goals(tree: Tree, goals: list[ProofGoal], facts: dict[str, Fact]) -> None:
    """Add goals, and below each the facts that prove it and the goals it was split into."""
    for goal in goals:
        mark = ("✓ ", "green") if goal.grounded else ("? ", "yellow")
        bound = ", ".join(f"{name} = {entity}" for name, entity in goal.bindings.items())
        branch = tree.add(Text.assemble(mark, printable(goal.atom), (f"  {bound}", "cyan")))
        _add_facts(branch, goal.facts, facts)
        _add_goals(branch, goal.parts, facts)


def _add_facts(tree: Tree, ids: list[str], facts: dict[str, Fact]) -> None:
    for fact_id in ids:
        fact = facts.get(fact_id)
        if fact is None:  # it did not fit the context's budget
            tree.add(Text(printable(fact_id), style="dim"))
            continue
        when = f"{fact.at:%Y-%m-%d} " if fact.at else ""
        source = printable(f"  [{', '.join(fact.message_ids) or fact.id}]")
        label = (label_line(fact), "red")
        tree.add(Text.assemble((when, "yellow"), printable(fact.text), (source, "dim"), label))
