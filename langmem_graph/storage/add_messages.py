"""append: messages reach the ledger before anything else happens to them (rule 1)."""

from collections.abc import Sequence
from time import perf_counter

from sqlalchemy import Connection

from langmem_graph.errors import ReadOnlyError
from langmem_graph.messages import is_bare_call, parse_messages, session_key
from langmem_graph.reports import AddReport, FlushReport, RejectedMessage
from langmem_graph.schemas import Message
from langmem_graph.storage import (
    embed_and_index,
    extraction_queue,
    message_queries,
    message_writes,
    stored_vectors,
)
from langmem_graph.storage.message_writes import Appended
from langmem_graph.storage.room import Room
from langmem_graph.storage.services import Services
from langmem_graph.storage.tables import EMBED, MESSAGES


def add_messages(
    services: Services,
    user_id: str,
    messages: object,
    session_id: object,
    at: object,
    whole_conversation: bool,
    *,
    read: bool = True,
) -> AddReport:
    """Store messages, acknowledge them, then embed and index what is due.

    With `read=False` no model will read them: their record is made already.
    """
    start = perf_counter()
    if services.read_only:
        raise ReadOnlyError("add needs a memory opened for writing, not read_only=True.")
    session = session_key(session_id)
    new, rejected = parse_messages(
        messages, session_id=session, at=at, max_chars=services.settings.storage.max_message_chars
    )
    with services.room(user_id) as room:
        room.check_embedder(services.embedder.name)
        with room.database.write_transaction() as connection:
            known = known_again(connection, new) if whole_conversation else []
            done = message_writes.append(connection, new[len(known) :])
            if not read:
                extraction_queue.mark_read(connection, list(done.rows))
            done.already_known[:0] = [message.id for message in known]
        own = range(min(done.rows), max(done.rows) + 1) if done.rows else range(0)
        drained = embed_and_index.drain(
            room,
            services.embedder,
            services.settings,
            MESSAGES,
            own,
            at_least=services.settings.storage.index_batch,
        )
        pending = _not_yet_embedded(room, done)
    return _report(done, rejected, pending, drained.warnings, start)


def _not_yet_embedded(room: Room, done: Appended) -> list[str]:
    if not done.rows:
        return []
    with room.database.read_transaction() as connection:
        waiting = stored_vectors.waiting_items(connection, EMBED, min(done.rows), max(done.rows))
    return [message_id for n, message_id in done.rows.items() if n in waiting]


def _report(
    done: Appended,
    rejected: list[RejectedMessage],
    pending: list[str],
    warnings: list[str],
    start: float,
) -> AddReport:
    return AddReport(
        stored=done.stored,
        already_known=done.already_known,
        renamed=done.renamed,
        rejected=rejected,
        not_yet_embedded=pending,
        warnings=warnings,
        milliseconds=(perf_counter() - start) * 1_000,
    )


def known_again(connection: Connection, conversation: Sequence[Message]) -> list[Message]:
    """The conversation's first messages, as far as they are stored already under other ids.

    A known id means that ids are stable here, and nothing is taken for repeated. Otherwise the
    beginning is compared with the end of the session, and, for a client that gets a new thread for
    every run, with what was stored last.
    """
    if not conversation or message_queries.messages_by_id(connection, [conversation[0].id]):
        return []
    depth = 4 * len(conversation)  # a spoken message may stand for several with tool calls
    in_session = message_queries.session_end(connection, conversation[0].session_id, depth)
    latest = message_queries.latest_messages(connection, depth)
    return _repeated(in_session, conversation, own=True) or _repeated(
        latest, conversation, own=False
    )


def _repeated(stored: Sequence[Message], sent: Sequence[Message], *, own: bool) -> list[Message]:
    """The longest beginning of `sent` that what is stored ends with, up to its last spoken words.

    Tool calls and their results are not compared: clients often send the words alone.
    """
    said, spoken = _spoken(stored), _spoken(sent)
    for size in range(min(len(said), len(spoken)), 0, -1):
        tail = said[-size:]
        if all(map(_same, tail, spoken)) and _is_telling(tail, spoken, own):
            return list(sent[: sent.index(spoken[size - 1]) + 1])
    return []


def _is_telling(tail: list[Message], spoken: list[Message], own: bool) -> bool:
    """Whether the repetition can only be the conversation again, and not the same said again.

    Two messages with more to follow are; so is one that was never answered; so is a question asked
    again after a failure, with all that was before it.
    """
    more = len(spoken) > len(tail)
    unanswered = tail[-1].role == "user"
    if more:
        return len(tail) >= 2 or (own and unanswered)
    return unanswered and len(tail) >= 3


def _spoken(messages: Sequence[Message]) -> list[Message]:
    """Without tool results and bare tool calls."""
    return [m for m in messages if m.role in ("user", "assistant") and not is_bare_call(m)]


def _same(one: Message, other: Message) -> bool:
    return (one.role, one.text) == (other.role, other.text)


def no_model_report(services: Services, user_id: str) -> FlushReport:
    """The report of a flush without a model: how many messages are pending."""
    if not services.has(user_id):
        return FlushReport(status="no_model")
    with services.room(user_id) as room, room.database.read_transaction() as connection:
        return FlushReport(status="no_model", pending=extraction_queue.count_unread(connection))
