"""`langmem-graph users` and `usage`: whose memories there are, and what model calls have cost."""

from typing import Annotated

import typer
from rich.table import Table

from langmem_graph.cli import printing
from langmem_graph.cli.options import DEFAULT_MEMORY, JsonOption, MemoryOption, opened
from langmem_graph.errors import InvalidInputError


def users(directory: MemoryOption = DEFAULT_MEMORY, as_json: JsonOption = False) -> None:
    """List users and shared rooms, what they hold and what is due. Works beside a running app."""
    with opened(directory, embeddings="hash", read_only=True) as memory:
        found = memory.users()
    if as_json:
        printing.print_json(found)
        return
    table = Table("user", "messages", "sessions", "records", "to read", "to embed", "oldest due")
    for one in found:
        counts = (one.messages, one.sessions, one.records, one.to_read, one.to_embed)
        due = f"{one.oldest_due:%Y-%m-%d %H:%M}" if one.oldest_due else ""
        name = f"{'shared room ' * one.is_shared}{printing.escaped(one.user_id)}"
        table.add_row(name, *(f"{n:,}" for n in counts), due)
    printing.console.print(table)


def usage(
    user: Annotated[
        str | None, typer.Option("--user", "-u", help="Only this user; default: all together.")
    ] = None,
    room: Annotated[str | None, typer.Option(help="Only this shared room.")] = None,
    since: Annotated[str | None, typer.Option(help="Only calls since this time.")] = None,
    directory: MemoryOption = DEFAULT_MEMORY,
    as_json: JsonOption = False,
) -> None:
    """Show what model calls cost, by day and purpose. Works beside a running app."""
    if user is not None and room is not None:
        raise InvalidInputError("--user and --room: give one of them.")
    with opened(directory, embeddings="hash", read_only=True) as memory:
        of = memory if user is None else memory.user(user)
        found = (of if room is None else memory.shared(room, as_user="operator")).usage(since)
    if as_json:
        printing.print_json(found)
        return
    table = Table("day", "purpose", "calls", "tokens in", "tokens out", "seconds")
    for line in found.lines:
        counts = (line.calls, line.input_tokens, line.output_tokens)
        table.add_row(
            f"{line.day}", line.purpose, *(f"{n:,}" for n in counts), f"{line.seconds:.1f}"
        )
    printing.console.print(table)
    printing.note(f"{found.calls:,} calls, {found.tokens:,} tokens, {found.seconds:,.1f} seconds.")
