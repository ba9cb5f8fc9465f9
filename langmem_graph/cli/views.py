"""How answers look in a terminal."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from langmem_graph.models import EraseReport, Health, MessageHit
from langmem_graph.store.lookups import SessionSummary

console = Console()
errors = Console(stderr=True)
LONGEST = 400


def note(text: str) -> None:
    """One quiet line."""
    console.print(Text(text, style="dim"))


def fail(text: str) -> None:
    """Why a command could not do its work."""
    errors.print(Text.assemble(("error: ", "bold red"), text))


def printable(text: str) -> str:
    """Without control characters: a stored text must not steer the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner on standard error while long work runs."""
    with errors.status(what):
        yield


def show_hits(query: str, hits: Sequence[MessageHit]) -> None:
    """Hits as a panel: score, date, who, where, and the words."""
    if not hits:
        note(f"Nothing found for “{query}”.")
        return
    table = Table.grid(padding=(0, 2))
    for rank, hit in enumerate(hits, 1):
        table.add_row(Text(f"{rank}", style="dim"), _hit(hit))
    console.print(Panel(table, title=escape(query), title_align="left", border_style="cyan"))


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
    """What an import came to, and the next thing to try."""
    console.print(
        f"Imported {escape(str(file))} for [bold]{escape(user)}[/]: "
        f"[green]{totals['stored'] + totals['renamed']:,} messages stored[/] in "
        f"{totals['sessions']:,} sessions, {totals['already_known']:,} already known, "
        f"{totals['rejected']:,} rejected."
    )
    for reason in totals["reasons"]:
        note(f"  rejected: {reason}")
    if totals["not_yet_embedded"]:
        note(f"  {totals['not_yet_embedded']:,} wait for their vectors.")
    note(f'Try: langmem-graph search "…" --user {user}')


def show_layers(user: str, health: Health, sessions: Sequence[SessionSummary]) -> None:
    """A user's pyramid; so far its lowest layer."""
    tree = Tree(Text(f"memory of {user}", style="bold"))
    layer = tree.add(f"conversations: {health.messages:,} messages in {health.sessions:,} sessions")
    for session in sessions:
        dates = f"{session.first_at:%Y-%m-%d} – {session.last_at:%Y-%m-%d}"
        layer.add(
            Text.assemble(
                f"{printable(session.session_id)} ", (f"{session.messages} · {dates}", "dim")
            )
        )
    tree.add(f"vectors: {health.vectors:,} by {health.embedder or 'no embedder yet'}")
    console.print(tree)


def show_session(session_id: str, messages: Sequence[dict[str, Any]]) -> None:
    """One session, message by message."""
    if not messages:
        note(f"No session {session_id!r}.")
    for row in messages:
        who = row.get("name") or row["role"]
        head = Text.assemble(
            (f"{row['at'][:16]} ", "yellow"), (printable(who), "bold"), printable(f"  {row['id']}")
        )
        console.print(head)
        console.print(Text(printable(row["content"])))


def show_health(user: str, health: Health) -> None:
    """Ledger against index, and what to do."""
    table = Table(title=f"memory of {escape(user)}", title_justify="left", show_header=False)
    for name, value in health.model_dump(exclude={"problems"}).items():
        table.add_row(name.replace("_", " "), str(value))
    console.print(table)
    for problem in health.problems:
        console.print(Text.assemble(("problem: ", "red"), problem))
    if health.ok:
        console.print("[green]Everything is in order.[/]")


def show_erased(user: str, report: EraseReport) -> None:
    """What an erasure removed."""
    console.print(
        f"Erased [bold]{escape(user)}[/]: {report.messages:,} messages, {report.files} files, "
        f"{report.bytes:,} bytes."
    )
