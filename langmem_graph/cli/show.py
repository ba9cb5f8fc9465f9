"""`langmem-graph show` and `explain`: what a user's memory holds, and the proof of an
answer.

`show` prints all layers, or one session, record or file; `explain` the reasoning as a
tree.
"""

from collections.abc import Sequence
from typing import Any

from rich.text import Text
from rich.tree import Tree

from langmem_graph.cli import printing
from langmem_graph.cli.printing import (
    label_line,
    note,
    plain,
    print_json,
    printable,
    short,
)
from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import UserMemory
from langmem_graph.reasoning.proof import ProofGoal, named_facts, proof_tree
from langmem_graph.reports import HistoryEntry
from langmem_graph.results import Fact, Recall

_OUTCOMES = {
    "grounded": ("proved", "green"),
    "partial": ("proved in part", "yellow"),
    "conflict": ("facts disagree", "red"),
    "exhausted": ("not found in memory", "yellow"),
    "budget": ("the budget was used up", "yellow"),
    None: ("nothing to prove", "dim"),
}


def show_session(room: UserMemory, session: str, as_json: bool) -> None:
    """One session, message by message."""
    rows = [row for row in room.export() if row["session_id"] == session]
    _require(rows, f"session {session!r}")
    if as_json:
        print_json(rows)
        return
    for message in room.get_conversation([row["id"] for row in rows]):
        at = (f"{message.at:%Y-%m-%dT%H:%M} ", "yellow")
        name = message.name or message.role
        own_id = printable(f"  {message.id}")
        label = (label_line(message), "red")
        printing.console.print(
            Text.assemble(at, (printable(name), "bold"), own_id, label)
        )
        printing.console.print(Text(printable(message.text)))


def show_record(room: UserMemory, record_id: str, as_json: bool) -> None:
    """One record, its history, and the messages it was extracted from."""
    records = room.get_records(record_id)
    history = room.history(record_id)
    _require([*records, *history], f"record {record_id!r}")
    if as_json:
        print_json(
            {"record": list(map(plain, records)), "history": list(map(plain, history))}
        )
        return
    for record in records:
        head = Text.assemble(
            (printable(record.text), "bold"), (label_line(record), "red")
        )
        printing.console.print(head)
        until = f" to {record.valid_to:%Y-%m-%d}" if record.valid_to else ""
        since = f"{record.valid_from:%Y-%m-%d}{until}"
        note(
            f"{record.kind}, {record.confirmation}, {record.status}, "
            f"{record.origin}: "
            f"{since}"
        )
        for entry in history:
            note(f"  {_history_line(entry)}")
        printing.note_messages(room.get_conversation(record.message_ids), "  ")


def _history_line(entry: HistoryEntry) -> str:
    why = f": {entry.reason}" if entry.reason else ""
    line = f"{entry.at:%Y-%m-%d} {entry.op} {entry.record_id} by {entry.by}{why}"
    if entry.relation is None:
        return line
    words = f' "{short(entry.quote)}"' if entry.quote else ""
    return f"{line} ({entry.relation}, {entry.message_id}{words})"


def show_file(room: UserMemory, file: str, as_json: bool) -> None:
    """A topic track or the profile."""
    text = room.read_file(file)
    if as_json:
        print_json({"name": file, "text": text})
    else:
        printing.console.print(Text(printable(text)))


def show_layers(user: str, room: UserMemory, as_of: str | None, as_json: bool) -> None:
    """All layers as a tree, from the files to the sessions."""
    health = room.doctor()
    sessions = room.sessions()
    records = room.export_records(as_of=as_of)
    files = (
        {name: room.read_file(name) for name in room.files()} if as_of is None else {}
    )
    if as_json:
        counted = {"messages": health.messages, "sessions": [vars(s) for s in sessions]}
        print_json({**counted, "records": records, "files": files})
        return
    when = f" as of {as_of}" if as_of else ""
    tree = Tree(Text(printable(f"memory of user {user}{when}"), style="bold"))
    if files:
        branch = tree.add("files (show --file NAME)")
        for name in files:
            branch.add(Text(printable(name)))
    every = room.export_records(history=True) if as_of is None else []
    ended = sum(one.get("status") == "superseded" for one in every)
    gone = f", and {ended:,} that no longer hold{'s' * (ended == 1)}" if ended else ""
    branch = tree.add(f"records: {len(records):,}{gone} (show --record ID)")
    for record in records:
        branch.add(_record_line(record))
    layer = tree.add(
        f"conversations: {health.messages:,} messages in {health.sessions:,} sessions"
    )
    for session in sessions:
        dates = f"{session.first_at:%Y-%m-%d} – {session.last_at:%Y-%m-%d}"
        name = f"{printable(session.session_id)} "
        layer.add(Text.assemble(name, (f"{session.messages} · {dates}", "dim")))
    by = printable(health.embedder or "no embedder yet")
    tree.add(Text(f"vectors: {health.vectors:,} by {by}"))
    printing.console.print(tree)


def _record_line(record: dict[str, Any]) -> Text:
    sources = ", ".join(record["source_message_ids"])
    about = f"{record.get('kind', 'fact')} [{record['record_id']}]"
    return Text.assemble(
        (f"{record['said_at'][:10]} ", "yellow"),
        printable(record["text"]),
        (printable(f"  {about} from {sources}"), "dim"),
    )


def _require(rows: Sequence[object], name: str) -> None:
    if not rows:
        raise InvalidInputError(
            f"No {name}. `show` without options lists what there is."
        )


def watch_reasoning(event: dict[str, Any]) -> None:
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
    refused = (
        "" if event.get("accepted", True) else f" (refused: {event.get('reason')})"
    )
    note(f"  {shown.format(**fields)}{refused}")


def show_proof(question: str, found: Recall) -> None:
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
        branch = tree.add(
            Text(printable(f"facts disagree about {conflict.variable}"), style="red")
        )
        for value, ids in conflict.values.items():
            _add_facts(branch.add(Text(printable(value))), ids, facts)
    for risk in reasoning.risks:
        label = "" if risk.basis == "memory" else "  (general knowledge)"
        branch = tree.add(
            Text.assemble(("risk ", "red"), printable(risk.claim), (label, "dim"))
        )
        _add_facts(branch, risk.facts, facts)
    for overlap in reasoning.overlaps:
        tree.add(Text.assemble(("at the same time ", "red"), printable(overlap)))
    if reasoning.unresolved:
        tree.add(
            Text.assemble(
                ("open ", "yellow"), printable(", ".join(reasoning.unresolved))
            )
        )
    printing.console.print(tree)
    report = found.report
    spent = f"{report.input_tokens:,} + {report.output_tokens:,} tokens"
    note(
        f"{report.llm_calls} model calls, {spent}, "
        f"{report.milliseconds['total']:,.0f} ms"
    )
    for problem in report.problems:
        note(f"  problem: {problem}")


def _add_goals(tree: Tree, goals: list[ProofGoal], facts: dict[str, Fact]) -> None:
    """Add goals, and below each the facts that prove it and the goals it was split
    into.
    """
    for goal in goals:
        mark = ("✓ ", "green") if goal.grounded else ("? ", "yellow")
        bound = ", ".join(
            f"{name} = {entity}" for name, entity in goal.bindings.items()
        )
        branch = tree.add(
            Text.assemble(mark, printable(goal.atom), (f"  {bound}", "cyan"))
        )
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
        tree.add(
            Text.assemble(
                (when, "yellow"), printable(fact.text), (source, "dim"), label
            )
        )
