"""What a memory holds after a case, what of it a model saw, and what the
reading cost.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from sqlalchemy import select

from benchmarks.truth.cases import FILLED, USER, Case, message_id
from benchmarks.truth.watching import Call, as_rows
from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory, UserMemory
from langmem_graph.reports import FlushReport
from langmem_graph.retrieval.quoted_context import as_data
from langmem_graph.schedule.times import event_in, occurrences
from langmem_graph.schemas import Record, RecordChange
from langmem_graph.settings import Settings
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.record_changes import changes_of
from langmem_graph.storage.record_queries import numbers_of
from langmem_graph.storage.tables import calls as call_table
from langmem_graph.tokens import token_counter
from langmem_graph.view import own_view

Row = dict[str, Any]
RECALLED = 8
"""Messages that each recall considers."""
_PLAIN_NOTES = re.compile(r"\((?:draft|inferred)\)")
_QUOTE = re.compile(r'"(?:[^"\\]|\\.)*"')


def outcome(
    case: Case,
    memory: Memory,
    calls: Sequence[Call],
    reports: Sequence[FlushReport],
    begun: datetime,
) -> Row:
    """Everything that is judged or counted, as a JSON object.

    Args:
        case: what was added.
        memory: what it was added to.
        calls: of the model.
        reports: of each flush.
        begun: since when the memory's own list of its calls belongs to the case, in
            UTC.
    """
    user = memory.user(USER)
    holding = {row["record_id"] for row in user.export_records()}
    records = user.get_records(
        [row["record_id"] for row in user.export_records(history=True)]
    )
    changes = _changes(memory, [record.record_id for record in records])
    kept = [
        r
        for r in records
        if not r.record_id.startswith(FILLED) or changes.get(r.record_id)
    ]
    own = [record for record in kept if not record.record_id.startswith(FILLED)]
    recalls = [_recall(user, sentence) for sentence in case.gold]
    lost = [
        r
        for r in records
        if r.record_id.startswith(FILLED) and r.record_id not in holding
    ]
    return {
        **{name: getattr(case, name) for name in ("id", "language", "kind", "group")},
        "turns": [
            len(list(case.turns(session))) for session in range(len(case.sessions))
        ],
        "message_tokens": _tokens(case),
        "holds": [_row(r, changes, case) for r in kept if r.record_id in holding],
        "no_longer_holds": [
            _row(r, changes, case) for r in kept if r.record_id not in holding
        ],
        "filler_superseded": [_row(record, changes, case) for record in lost],
        "recalls": recalls,
        "view": _view(case, own, calls),
        "old": _old(case, memory, own, calls),
        "reports": [report.model_dump(mode="json") for report in reports],
        "calls": as_rows(calls),
        "stored_calls": _stored_calls(memory, begun),
    }


def _tokens(case: Case) -> int:
    count = token_counter(Settings().encoding).count
    return sum(
        count(m["content"]) for session in case.sessions for m in session["messages"]
    )


def _changes(memory: Memory, ids: Sequence[str]) -> dict[str, list[RecordChange]]:
    def query(connection: Reading) -> dict[str, list[RecordChange]]:
        numbers = numbers_of(connection, ids)
        made = changes_of(connection, numbers.values())
        return {name: made[n] for name, n in numbers.items() if n in made}

    return memory._services.read(own_view(USER), query, {})


def _stored_calls(memory: Memory, begun: datetime) -> list[Row]:
    """The memory's own table of its calls, which also says what was refused and why."""

    def query(connection: Reading) -> list[Row]:
        rows = connection.execute(select(call_table).where(call_table.c.at >= begun))
        return [
            {name: _plain(value) for name, value in row._mapping.items()}
            for row in rows
        ]

    return memory._services.read(own_view(USER), query, [])


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _row(record: Record, changes: dict[str, list[RecordChange]], case: Case) -> Row:
    """A record with what messages did to it, and when it takes place next after the
    talk.
    """
    kept = {
        "record_id",
        "text",
        "kind",
        "facet",
        "subject",
        "attribute",
        "confirmation",
        "status",
    }
    kept |= {
        "valid_from",
        "valid_to",
        "event_time",
        "message_ids",
        "superseded_by",
        "values",
    }
    done = [
        change.model_dump(mode="json") for change in changes.get(record.record_id, [])
    ]
    row = record.model_dump(mode="json", include=kept)
    return {**row, "next": _next(record, case), "changes": done}


def _next(record: Record, case: Case) -> str | None:
    event = event_in(record.event_time)
    if event is None:
        return None
    begin = case.end.replace(tzinfo=event.start.tzinfo)
    try:
        spans = occurrences(event, begin, begin + timedelta(days=800), 1)
    except InvalidInputError:
        return None
    return spans[0][0].isoformat(timespec="minutes") if spans else None


def _recall(user: UserMemory, sentence: str) -> Row:
    """A fast recall, and the lines of its context that quote the case's own
    messages.
    """
    found = user.recall(sentence, k=RECALLED)
    return {
        "query": sentence,
        "context": found.context,
        "quotes": quotes(found.context),
    }


def quotes(context: str) -> list[Row]:
    """The quotes of a case's messages in a context: message, lines, and whether they
    are labelled.

    A quote is labelled if anything but date, speaker and id stands beside its words.
    """
    found: list[list[str]] = []
    for line in context.splitlines():
        if line.startswith("- "):
            found.append([line])
        elif found and line.startswith(" "):
            found[-1].append(line)
    rows = []
    for lines in found:
        head = re.match(r"- \S+ \S+ .*?\[(s\d+-m\d+)\]", lines[0])
        if head:
            beside = _PLAIN_NOTES.sub("", "\n".join(lines)[head.end() :])
            is_labelled = bool(_QUOTE.sub("", beside, count=1).strip(": \n"))
            row = {
                "message": head[1],
                "text": "\n".join(lines),
                "labelled": is_labelled,
            }
            rows.append(row)
    return rows


def _view(case: Case, own: Iterable[Record], calls: Sequence[Call]) -> Row:
    """In which calls the case's records and messages stood, by the calls' places."""
    said = {
        message_id(session, place): message["content"]
        for session, one in enumerate(case.sessions)
        for place, message in enumerate(one["messages"])
    }
    return {
        "records": {record.record_id: _showing(record.text, calls) for record in own},
        "messages": {name: _showing(text, calls) for name, text in said.items()},
    }


def _showing(text: str, calls: Sequence[Call]) -> list[int]:
    data = as_data(text)[1:-1]
    return [n for n, call in enumerate(calls) if data in call.user or text in call.user]


def _old(
    case: Case, memory: Memory, own: Sequence[Record], calls: Sequence[Call]
) -> list[Row]:
    """For each sentence that holds no longer, the nearest record from before the
    change.
    """
    when = datetime.fromisoformat(case.messages(case.turn[0])[case.turn[1]]["at"])
    earlier = [
        r for r in own if r.said_at.replace(tzinfo=None) < when.replace(tzinfo=None)
    ]
    if not case.no_longer or not earlier:
        return [
            {"sentence": sentence, "record_id": None} for sentence in case.no_longer
        ]
    embed = memory._services.embedder.embed
    likeness = embed(case.no_longer) @ embed([record.text for record in earlier]).T
    view = _view(case, own, calls)
    nearest = [(earlier[int(np.argmax(row))], float(np.max(row))) for row in likeness]
    return [
        {
            "sentence": sentence,
            "record_id": record.record_id,
            "text": record.text,
            "likeness": round(cosine, 3),
            "in_view": in_view(view, case.turn, record.record_id, record.message_ids),
        }
        for sentence, (record, cosine) in zip(case.no_longer, nearest, strict=True)
    ]


def in_view(
    view: Row, turn: Sequence[int], record_id: str, sources: Iterable[str]
) -> bool:
    """Whether a call that read the message of the change also showed the record or its
    sources.

    Args:
        view: as an outcome has it.
        turn: the session and the message of the change.
        record_id: the record that should change.
        sources: the messages that it comes from.
    """
    reading = set(view["messages"][message_id(turn[0], turn[1])])
    shown = reading & set(view["records"].get(record_id, []))
    told = [set(view["messages"].get(name, [])) for name in sources]
    return bool(shown or (told and reading.intersection(*told)))
