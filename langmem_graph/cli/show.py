"""`langmem-graph show`: all layers of a user's memory, or one session, record or file."""

from collections.abc import Sequence
from typing import Any

from rich.text import Text
from rich.tree import Tree

from langmem_graph.cli import printing
from langmem_graph.cli.printing import label_line, note, plain, print_json, printable, short
from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import UserMemory
from langmem_graph.reports import HistoryEntry


def show_session(room: UserMemory, session: str, as_json: bool) -> None:
    """One session, message by message."""
    rows = [row for row in room.export() if row["session_id"] == session]
    _require(rows, f"session {session!r}")
    if as_json:
        print_json(rows)
        return
    for message in room.get_conversation([row["id"] for row in rows]):
        at, name = (f"{message.at:%Y-%m-%dT%H:%M} ", "yellow"), message.name or message.role
        own_id, label = printable(f"  {message.id}"), (label_line(message), "red")
        printing.console.print(Text.assemble(at, (printable(name), "bold"), own_id, label))
        printing.console.print(Text(printable(message.text)))


def show_record(room: UserMemory, record_id: str, as_json: bool) -> None:
    """One record, its history, and the messages it was extracted from."""
    records, history = room.get_records(record_id), room.history(record_id)
    _require([*records, *history], f"record {record_id!r}")
    if as_json:
        print_json({"record": list(map(plain, records)), "history": list(map(plain, history))})
        return
    for record in records:
        head = Text.assemble((printable(record.text), "bold"), (label_line(record), "red"))
        printing.console.print(head)
        until = f" to {record.valid_to:%Y-%m-%d}" if record.valid_to else ""
        since = f"{record.valid_from:%Y-%m-%d}{until}"
        note(f"{record.kind}, {record.confirmation}, {record.status}, {record.origin}: {since}")
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
    health, sessions = room.doctor(), room.sessions()
    records = room.export_records(as_of=as_of)
    files = {name: room.read_file(name) for name in room.files()} if as_of is None else {}
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
    layer = tree.add(f"conversations: {health.messages:,} messages in {health.sessions:,} sessions")
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
        raise InvalidInputError(f"No {name}. `show` without options lists what there is.")
