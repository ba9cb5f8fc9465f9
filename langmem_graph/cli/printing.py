"""Prints the commands' results: as JSON for scripts, or as panels, trees and tables."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel
from rich.console import Console, Group
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from langmem_graph.reports import EraseReport, FlushReport, ForgetReport, Health
from langmem_graph.retrieval.quoted_context import plain_json
from langmem_graph.schemas import HistoryEntry, Message, MessageHit, Record
from langmem_graph.storage.message_queries import SessionSummary

console = Console()
errors = Console(stderr=True)
LONGEST = 400


def print_json(value: object) -> None:
    """Print a model, a list of models, or JSON data."""
    typer.echo(plain_json(list(map(plain, value)) if isinstance(value, list) else plain(value)))


def plain(value: Any) -> Any:
    """A model as JSON data; anything else as it is."""
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value


def note(text: str) -> None:
    """Print one dim line."""
    console.print(Text(printable(text), style="dim"))


def fail(text: str) -> None:
    """Print an error to standard error."""
    errors.print(Text.assemble(("error: ", "bold red"), printable(text)))


def printable(text: str) -> str:
    """The text without control characters, which could control the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)


def _plain(text: str) -> str:
    """The text for a line with markup, escaped."""
    return escape(printable(text))


def note_messages(messages: Sequence[Message], indent: str = "") -> None:
    """One dim line for each message: date, speaker, id and text."""
    for message in messages:
        who = message.name or message.role
        note(f"{indent}{message.at:%Y-%m-%d} {who} [{message.id}]: {message.text}")


def show_hits(query: str, hits: Sequence[MessageHit]) -> None:
    """Hits as a panel: score, date, speaker, session, id and text."""
    if not hits:
        note(f"Nothing found for “{query}”.")
        return
    table = Table.grid(padding=(0, 2))
    for rank, hit in enumerate(hits, 1):
        table.add_row(Text(f"{rank}", style="dim"), _hit(hit))
    console.print(Panel(table, title=_plain(query), title_align="left", border_style="cyan"))


def _hit(hit: MessageHit) -> Group:
    head = Text.assemble(
        (f"{hit.score:6.3f}  ", "green"),
        (f"{hit.at:%Y-%m-%d %H:%M}  ", "yellow"),
        (printable(hit.name or hit.role), "bold"),
        (printable(f"   {hit.session_id} · {hit.message_id}"), "dim"),
    )
    lines = [head, Text(_short(hit.excerpt or hit.text))]
    if hit.signals:
        shown = "  ".join(f"{name} {value:.2f}" for name, value in hit.signals.items())
        lines.append(Text(shown, style="dim"))
    return Group(*lines)


def _short(text: str) -> str:
    flat = " ".join(printable(text).split())
    return flat if len(flat) <= LONGEST else f"{flat[:LONGEST]}…"


def show_import(totals: dict[str, Any], file: Path, user: str) -> None:
    """The result of an import, and a command to try next."""
    console.print(
        f"Imported {_plain(str(file))} for [bold]{_plain(user)}[/]: "
        f"[green]{totals['stored'] + totals['renamed']:,} messages stored[/] in "
        f"{totals['sessions']:,} sessions, {totals['already_known']:,} already known, "
        f"{totals['rejected']:,} rejected."
    )
    for reason in totals["reasons"]:
        note(f"  rejected: {reason}")
    if totals.get("records"):
        note(f"  and {totals['records']:,} records.")
    if totals["not_yet_embedded"]:
        note(f"  {totals['not_yet_embedded']:,} wait for their vectors.")
    note(f'Try: langmem-graph search "…" --user {user}')


def show_layers(
    user: str,
    health: Health,
    sessions: Sequence[SessionSummary],
    records: Sequence[dict[str, Any]],
    files: dict[str, str],
    as_of: str | None,
) -> None:
    """The layers of a user's memory as a tree: files, records, conversations."""
    when = f" as of {as_of}" if as_of else ""
    tree = Tree(Text(printable(f"memory of {user}{when}"), style="bold"))
    if files:
        branch = tree.add("files (show --file NAME)")
        for name in files:
            branch.add(Text(printable(name)))
    branch = tree.add(f"records: {len(records):,} (show --record ID)")
    for record in records:
        branch.add(_record_line(record))
    layer = tree.add(f"conversations: {health.messages:,} messages in {health.sessions:,} sessions")
    for session in sessions:
        dates = f"{session.first_at:%Y-%m-%d} – {session.last_at:%Y-%m-%d}"
        name = f"{printable(session.session_id)} "
        layer.add(Text.assemble(name, (f"{session.messages} · {dates}", "dim")))
    by = printable(health.embedder or "no embedder yet")
    tree.add(Text(f"vectors: {health.vectors:,} by {by}"))
    console.print(tree)


def _record_line(record: dict[str, Any]) -> Text:
    sources = ", ".join(record["source_message_ids"])
    about = f"{record.get('kind', 'fact')} [{record['record_id']}]"
    return Text.assemble(
        (f"{record['said_at'][:10]} ", "yellow"),
        printable(record["text"]),
        (printable(f"  {about} from {sources}"), "dim"),
    )


def show_record(
    found: Sequence[Record],
    history: Sequence[HistoryEntry],
    messages: Callable[[Sequence[str]], Sequence[Message]],
) -> None:
    """A record, its history, and the messages it was extracted from."""
    for record in found:
        until = f" to {record.valid_to:%Y-%m-%d}" if record.valid_to else ""
        console.print(Text(printable(record.text), style="bold"))
        since = f"{record.valid_from:%Y-%m-%d}{until}"
        note(f"{record.kind}, {record.confirmation}, {record.status}: {since}")
        for entry in history:
            why = f": {entry.reason}" if entry.reason else ""
            note(f"  {entry.at:%Y-%m-%d} {entry.op} {entry.record_id} by {entry.by}{why}")
        note_messages(messages(record.message_ids), "  ")


def show_flush(user: str, report: FlushReport) -> None:
    """The result of extraction and its cost."""
    if report.status == "no_model":
        note(f"No model; {report.pending:,} messages wait.")
        return
    console.print(
        f"Read {report.read:,} messages of [bold]{_plain(user)}[/]: {report.stored:,} records new, "
        f"{report.updated:,} updated, {report.merged:,} merged, {report.known:,} known, "
        f"{report.topics:,} topics changed; {report.pending:,} messages wait."
    )
    note(
        f"{report.llm_calls} model calls, {report.input_tokens:,} + {report.output_tokens:,} tokens"
        f"{'' if report.tokens_exact else ' (estimated)'}"
    )
    for problem in report.problems:
        note(f"  problem: {problem}")


def show_forgotten(user: str, report: ForgetReport) -> None:
    """What was deleted."""
    if not report.messages and not report.records:
        note("Nothing was deleted: there is no such message, record or session.")
        return
    console.print(
        f"Forgot of [bold]{_plain(user)}[/]: {report.messages:,} messages, {report.records:,} "
        f"records; {report.restored:,} records are true again."
    )


def show_session(messages: Sequence[dict[str, Any]]) -> None:
    """One session, message by message."""
    for row in messages:
        who = row.get("name") or row["role"]
        at, name = (f"{row['at'][:16]} ", "yellow"), (printable(who), "bold")
        console.print(Text.assemble(at, name, printable(f"  {row['id']}")))
        console.print(Text(printable(row["content"])))


def show_health(user: str, health: Health) -> None:
    """The ledger compared with the index, and what to do."""
    table = Table(title=f"memory of {_plain(user)}", title_justify="left", show_header=False)
    for name, value in health.model_dump(exclude={"problems"}).items():
        table.add_row(name.replace("_", " "), Text(printable(str(value))))
    console.print(table)
    for problem in health.problems:
        console.print(Text.assemble(("problem: ", "red"), printable(problem)))
    if health.ok:
        console.print("[green]Everything is in order.[/]")


def show_erased(user: str, report: EraseReport) -> None:
    """What an erasure removed."""
    console.print(
        f"Erased [bold]{_plain(user)}[/]: {report.messages:,} messages, {report.files} files, "
        f"{report.bytes:,} bytes."
    )
