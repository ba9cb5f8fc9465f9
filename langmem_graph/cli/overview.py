"""`langmem-graph users` and `usage`: whose memories there are, and what model calls have cost."""

from typing import Annotated

import typer
from rich.table import Table

from langmem_graph.cli import printing
from langmem_graph.cli.options import DEFAULT_MEMORY, JsonOption, MemoryOption, opened


def users(directory: MemoryOption = DEFAULT_MEMORY, as_json: JsonOption = False) -> None:
    """List the users, what their memories hold and what is due. Works beside a running app."""
    with opened(directory, embeddings="hash", read_only=True) as memory:
        found, is_read = memory.users(), memory.usage().calls > 0
    if as_json:
        printing.print_json(found)
        return
    table = Table("user", "messages", "sessions", "records", "to read", "to embed", "oldest due")
    for one in found:
        counts = (one.messages, one.sessions, one.records, one.to_read, one.to_embed)
        is_due = one.oldest_due and (is_read or one.to_embed)
        due = f"{one.oldest_due:%Y-%m-%d %H:%M}" if is_due else ""
        cells = [f"{n:,}" for n in counts]
        cells[3] = cells[3] if is_read or not one.to_read else "no model"
        table.add_row(printing.escaped(one.user_id), *cells, due)
    printing.console.print(table)
    if not is_read and any(one.to_read for one in found):
        printing.note("No model so far, so nothing is read: with Memory(path, model=…) it is.")


def usage(
    user: Annotated[
        str | None, typer.Option("--user", "-u", help="Only this user; default: all together.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="Only calls since this time.")] = None,
    directory: MemoryOption = DEFAULT_MEMORY,
    as_json: JsonOption = False,
) -> None:
    """Show what model calls cost, by day and purpose. Works beside a running app."""
    with opened(directory, embeddings="hash", read_only=True) as memory:
        found = memory.usage(since) if user is None else memory.user(user).usage(since)
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
