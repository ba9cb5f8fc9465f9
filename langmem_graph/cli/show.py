"""`langmem-graph show`: all layers of a user's memory, or one session, record or file."""

from collections.abc import Sequence

from rich.text import Text

from langmem_graph.cli import printing
from langmem_graph.cli.printing import plain, print_json
from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import UserMemory


def show_session(room: UserMemory, session: str, as_json: bool) -> None:
    """One session's messages."""
    messages = [row for row in room.export() if row["session_id"] == session]
    _require(messages, f"session {session!r}")
    print_json(messages) if as_json else printing.show_session(messages)


def show_record(room: UserMemory, record: str, as_json: bool) -> None:
    """One record and its history."""
    records, history = room.get_records(record), room.history(record)
    _require([*records, *history], f"record {record!r}")
    if as_json:
        print_json({"record": list(map(plain, records)), "history": list(map(plain, history))})
    else:
        printing.show_record(records, history, room.get_conversation)


def show_file(room: UserMemory, file: str, as_json: bool) -> None:
    """A topic track or the profile."""
    text = room.read_file(file)
    if as_json:
        print_json({"name": file, "text": text})
    else:
        printing.console.print(Text(printing.printable(text)))


def show_layers(user: str, room: UserMemory, as_of: str | None, as_json: bool) -> None:
    """All layers, from the profile to the sessions."""
    health, sessions = room.doctor(), room.sessions()
    records = room.export_records(as_of=as_of)
    files = {name: room.read_file(name) for name in room.files()} if as_of is None else {}
    if as_json:
        counted = {"messages": health.messages, "sessions": [vars(s) for s in sessions]}
        print_json({**counted, "records": records, "files": files})
    else:
        printing.show_layers(user, health, sessions, records, files, as_of)


def _require(rows: Sequence[object], name: str) -> None:
    if not rows:
        raise InvalidInputError(f"No {name}. `show` without options lists what there is.")
