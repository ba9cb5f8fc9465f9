"""Prints the commands' results: as JSON for scripts, or as panels, trees and tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel
from rich.console import Console, Group
from rich.markup import escape
from rich.panel import Panel
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from langmem_graph.reports import (
    EraseReport,
    FlushForecast,
    FlushReport,
    ForgetReport,
    Health,
)
from langmem_graph.retrieval.quoted_context import label_words, of_room, plain_json
from langmem_graph.retrieval.search_common import signals_line
from langmem_graph.schemas import Labelled, Message, MessageHit, Record

console = Console()
errors = Console(stderr=True)
LONGEST = 400
TRACES_LEFT = (
    "Deleted words stay on disk until another program stops reading, or "
    "tables are rewritten."
)


def print_json(value: object) -> None:
    """Print a model, a list of models, or JSON data."""
    typer.echo(
        plain_json(list(map(plain, value)) if isinstance(value, list) else plain(value))
    )


def plain(value: Any) -> Any:
    """A model as JSON data; anything else as it is."""
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value


def note(text: str, on: Console = console) -> None:
    """Print one dim line."""
    on.print(Text(printable(text), style="dim"))


def fail(text: str) -> None:
    """Print an error to standard error, in one line however wide the terminal is."""
    errors.print(
        Text.assemble(("error: ", "bold red"), printable(text)), soft_wrap=True
    )


def printable(text: str) -> str:
    """The text without control characters, which could control the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)


def escaped(text: str) -> str:
    """The text for a line with markup, escaped."""
    return escape(printable(text))


def label_line(shown: Labelled) -> str:
    """What no longer holds of it, in brackets; empty where all of it holds."""
    return printable(label_words(shown.labels))


def note_messages(messages: Sequence[Message], indent: str = "") -> None:
    """One dim line for each message: date, speaker, id and text."""
    for message in messages:
        head = (
            f"{indent}{message.at:%Y-%m-%d} {message.name or message.role} "
            f"[{message.id}]"
        )
        note(f"{head}{label_line(message)}: {message.text}")


def show_hits(query: str, hits: Sequence[MessageHit]) -> None:
    """Hits as a panel: score, date, speaker, session, id and text."""
    if not hits:
        note(f"Nothing found for “{query}”.")
        return
    table = Table.grid(padding=(0, 2))
    for rank, hit in enumerate(hits, 1):
        table.add_row(Text("" if hit.missed else f"{rank}", style="dim"), _hit(hit))
    console.print(
        Panel(table, title=escaped(query), title_align="left", border_style="cyan")
    )


def _hit(hit: MessageHit) -> Group:
    head = Text.assemble(
        (f"{hit.score:6.3f}  ", "green"),
        (f"{hit.at:%Y-%m-%d %H:%M}  ", "yellow"),
        (
            printable(f"{hit.name or hit.role}{of_room(hit, hit.name or hit.role)}"),
            "bold",
        ),
        (printable(f"   {hit.session_id} · {hit.message_id}"), "dim"),
        (label_line(hit), "red"),
    )
    lines = [head, Text(short(hit.excerpt or hit.text))]
    lines += [
        Text(line, style="dim") for line in (hit.missed, signals_line(hit)) if line
    ]
    return Group(*lines)


def short(text: str) -> str:
    """The beginning of the text, on one line."""
    flat = " ".join(printable(text).split())
    return flat if len(flat) <= LONGEST else f"{flat[:LONGEST]}…"


def show_import(totals: dict[str, Any], file: Path, user: str) -> None:
    """The result of an import, and a command to try next."""
    console.print(
        f"Imported {escaped(str(file))} for [bold]{escaped(user)}[/]: "
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


def show_forecast(user: str, forecast: FlushForecast) -> None:
    """What is pending, and what reading it may cost; on standard error."""
    if not forecast.messages:
        errors.print(f"No messages of [bold]{escaped(user)}[/] wait.")
        return
    errors.print(
        f"{forecast.messages:,} messages of [bold]{escaped(user)}[/] wait, in "
        f"{forecast.turns:,} "
        f"turns of {forecast.sessions:,} sessions. To read them takes "
        f"{forecast.calls_low:,} to "
        f"{forecast.calls_high:,} model calls, about {forecast.input_tokens:,} tokens "
        "in and "
        f"{forecast.output_tokens:,} out at most."
    )


def progress_bar(quiet: bool = False) -> Progress:
    """A progress bar on standard error, which counts what is done of what; only on a
    terminal.
    """
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=errors,
        disable=quiet or not errors.is_terminal,
        transient=True,
    )


def show_records(touched: Sequence[Record]) -> None:
    """Records that were changed, as they are now."""
    if not touched:
        note("Nothing was changed.")
    for record in touched:
        console.print(Text(printable(record.text), style="bold"))
        note(f"  {record.record_id}: {record.status}")


def show_flush(user: str, report: FlushReport) -> None:
    """The result of extraction and its cost."""
    if report.status == "no_model":
        note(f"No model; {report.pending:,} messages wait.")
        return
    console.print(
        f"Read {report.read:,} messages of [bold]{escaped(user)}[/]: "
        f"{report.stored:,} records "
        f"new, {report.updated:,} older ones no longer hold, {report.known:,} known, "
        f"{report.topics:,} topics changed; {report.pending:,} messages wait."
    )
    note(
        f"{report.llm_calls} model calls, {report.input_tokens:,} + "
        f"{report.output_tokens:,} tokens"
        f"{'' if report.tokens_exact else ' (estimated)'}"
    )
    for problem in report.problems:
        note(f"  problem: {problem}")
    for line in report.dropped:
        note(f"  dropped: {line}")


def show_forgotten(user: str, report: ForgetReport) -> None:
    """What was deleted."""
    console.print(
        f"Deleted for user [bold]{escaped(user)}[/]: messages {report.messages:,}, "
        "records "
        f"{report.records:,}. Records that hold again: {report.restored:,}."
    )
    if report.traces_left:
        note(TRACES_LEFT)


def show_health(user: str, health: Health) -> None:
    """The ledger compared with the index, and what to do."""
    table = Table(
        title=f"memory of user {escaped(user)}", title_justify="left", show_header=False
    )
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
        f"Erased [bold]{escaped(user)}[/]: {report.messages:,} messages, "
        f"{report.files} files, "
        f"{report.bytes:,} bytes."
    )
    for room, count in report.shared_rooms.items():
        note(
            f"The shared room {room!r} holds {count:,} messages of this user; "
            "`langmem-graph forget"
            " --room ROOM --author USER` deletes them."
        )
    for warning in report.warnings:
        note(warning)
    if report.traces_left:
        note(TRACES_LEFT)
