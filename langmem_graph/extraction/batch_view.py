"""What one call of `extract` shows to the model, and the text in which it is shown.

Every message is one JSON string on one line, so that no text in it can open another
line. Aliases are drawn at random for each call: a message cannot name another one by
guessing.
"""

import secrets
from collections.abc import Iterable, Sequence

from langmem_graph.extraction.records_in_view import records_in_view
from langmem_graph.extraction.state import Batch, BatchView, Candidate, ShownMessage
from langmem_graph.ids_and_times import in_zone
from langmem_graph.retrieval.quoted_context import LONGEST_NAME, as_data, plain_id
from langmem_graph.retrieval.search_common import RoomSearch
from langmem_graph.schedule.times import event_in, with_weekday, zone_of
from langmem_graph.schemas import Message, Record
from langmem_graph.storage import message_queries, pending_messages
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.reading import EVERYTHING, Reading
from langmem_graph.storage.user_room import Room
from langmem_graph.tokens import TokenCounter, token_counter

TOKENS_BEFORE, MESSAGES_BEFORE = 600, 12  # of what was said before; own figures
_TOLD = ("instruction", "draft")  # kinds and confirmations that matter for changes


def read_view(
    room: Room, services: Services, batch: Batch, first_alias: int | None
) -> BatchView:
    """The batch's messages, what was said shortly before, and records that they may
    change.
    """
    settings = services.settings
    counter = token_counter(settings.encoding)
    with room.database.read_transaction(EVERYTHING) as connection:
        new = message_queries.messages_by_number(connection, batch.items)
        ordered = [(n, new[n]) for n in batch.items if n in new]
        before = _before(connection, batch, counter, settings.extraction.message_chars)
    records = records_in_view(
        RoomSearch.of(services, room, EVERYTHING), ordered, before
    )
    start = draw_first_alias() if first_alias is None else first_alias
    shown = {
        f"b{i}": ShownMessage(n, m, is_new=False)
        for i, (n, m) in enumerate(before, start)
    }
    shown |= {
        f"m{i}": ShownMessage(n, m, is_new=True)
        for i, (n, m) in enumerate(ordered, start)
    }
    aliases = {f"n{i}": one for i, one in enumerate(records, start)}
    return BatchView(shown, aliases, settings.time_zone)


def draw_first_alias() -> int:
    """The number of a call's first aliases, which nobody can guess."""
    return 100 + secrets.randbelow(800)


def _before(
    connection: Reading, batch: Batch, counter: TokenCounter, message_chars: int
) -> list[tuple[int, Message]]:
    """What was said in the first session of the batch before it, within a budget of
    tokens.
    """
    first = min(batch.items)
    session = message_queries.session_of(connection, first)
    left = TOKENS_BEFORE
    kept = list[tuple[int, Message]]()
    earlier = pending_messages.messages_before(
        connection, first, session, MESSAGES_BEFORE
    )
    for n, message in reversed(earlier):
        left -= counter.count(shortened(message.text, message_chars))
        if left < 0:
            break
        kept.append((n, message))
    return kept[::-1]


def batch_question(view: BatchView, message_chars: int) -> str:
    """The user message of the call that extracts a batch."""
    new = [alias for alias, one in view.messages.items() if one.is_new]
    before = [alias for alias, one in view.messages.items() if not one.is_new]
    parts = ["Records:", *record_lines(view.records, view.zone)]
    if before:
        parts += ["Said before:", *message_lines(view, before, message_chars)]
    return "\n".join(
        [*parts, "New messages:", *message_lines(view, new, message_chars)]
    )


def message_lines(
    view: BatchView, aliases: Iterable[str], message_chars: int
) -> list[str]:
    """One line for each message, and one where another conversation begins."""
    lines = list[str]()
    session = ""
    for alias in aliases:
        message = view.messages[alias].message
        if session and message.session_id != session:
            lines.append("-- another conversation --")
        session = message.session_id
        lines.append(_message_line(alias, message, view.zone, message_chars))
    return lines


def _message_line(
    alias: str, message: Message, zone: str | None, message_chars: int
) -> str:
    speaker = plain_id((message.name or message.role)[:LONGEST_NAME])
    origin = "" if message.origin == message.role else f" ({message.origin})"
    said = as_data(shortened(message.text, message_chars))
    clock = f"{in_zone(message.at, zone_of(zone)):%H:%M}"
    return f"{alias} {shown_day(message, zone)} {clock} {speaker}{origin}: {said}"


def shown_day(message: Message, zone: str | None) -> str:
    """The day on which a message was said, as its line has it."""
    return with_weekday(in_zone(message.at, zone_of(zone)))


def shortened(text: str, limit: int) -> str:
    """The text, or the beginning and the end of a longer one."""
    if len(text) <= limit:
        return text
    return (
        f"{text[: limit // 2]}\n[… {len(text) - limit:,} characters "
        f"…]\n{text[-limit // 2 :]}"
    )


def record_lines(records: dict[str, tuple[int, Record]], zone: str | None) -> list[str]:
    """One line for each record: alias, date, what it is about, kind, time, and its
    sentence.
    """
    return [
        _record_line(alias, record, zone) for alias, (_, record) in records.items()
    ] or ["none"]


def _record_line(alias: str, record: Record, zone: str | None) -> str:
    notes = [about(record.subject, record.attribute)]
    notes += [note for note in (record.kind, record.confirmation) if note in _TOLD]
    event = event_in(record.event_time)
    if event is not None:
        at = event.start.astimezone(zone_of(event.time_zone or zone))
        clock = f" {at:%H:%M}" if event.granularity == "minute" else ""
        rule = f" {event.recurrence}" if event.recurrence else ""
        notes.append(f"{with_weekday(at)}{clock}{rule}")
    said = in_zone(record.said_at, zone_of(zone))
    return f"{alias} {said:%Y-%m-%d} ({'; '.join(notes)}) {as_data(record.text)}"


def about(subject: str | None, attribute: str | None) -> str:
    """What a record is about, as a part of a prompt's line."""
    return f"{plain_id(subject or '?')} / {plain_id(attribute or '?')}"


def read_lines(
    view: BatchView, candidates: Sequence[Candidate | None], message_chars: int
) -> list[str]:
    """The new messages, and others that the candidates cite, as lines of a prompt."""
    cited = {n for candidate in candidates if candidate for n in candidate.source_ns}
    aliases = [
        alias for alias, one in view.messages.items() if one.is_new or one.n in cited
    ]
    return message_lines(view, aliases, message_chars)
