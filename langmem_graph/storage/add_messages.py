"""Adding messages: they are stored in the ledger before anything else happens to them.

A caller may also give a whole conversation again and again; the part that is already stored is then
recognized, even under other ids.
"""

from collections.abc import Sequence
from time import perf_counter

from sqlalchemy import Connection

from langmem_graph.errors import ReadOnlyError
from langmem_graph.messages import is_bare_call, parse_messages, session_key
from langmem_graph.reports import AddReport, FlushReport
from langmem_graph.schemas import Message
from langmem_graph.storage import message_queries, message_writes, pending_messages, vector_rows
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.message_writes import Appended
from langmem_graph.storage.tables_and_migrations import EMBED, MESSAGES
from langmem_graph.storage.user_room import Room


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
    """Store messages in one transaction, then embed and index what is due.

    Args:
        services: the memory's dependencies.
        user_id: whose messages they are.
        messages: messages in any of the supported forms.
        session_id: the session that the messages belong to.
        at: the time for messages that have none of their own.
        whole_conversation: whether the messages may begin with some that are stored already.
        read: False when extraction shall not read them, since their record is made by hand.

    Raises:
        ReadOnlyError: the memory was opened with `read_only=True`.
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
                pending_messages.mark_read(connection, list(done.rows))
            done.already_known[:0] = [message.id for message in known]
        drained = services.embed_new(room, MESSAGES, done.rows)
        not_yet_embedded = _not_yet_embedded(room, done)
    return AddReport(
        stored=done.stored,
        already_known=done.already_known,
        renamed=done.renamed,
        rejected=rejected,
        not_yet_embedded=not_yet_embedded,
        warnings=drained.warnings,
        milliseconds=(perf_counter() - start) * 1_000,
    )


def _not_yet_embedded(room: Room, done: Appended) -> list[str]:
    if not done.rows:
        return []
    with room.database.read_transaction() as connection:
        waiting = vector_rows.waiting_items(connection, EMBED, min(done.rows), max(done.rows))
    return [message_id for n, message_id in done.rows.items() if n in waiting]


def known_again(connection: Connection, conversation: Sequence[Message]) -> list[Message]:
    """The first messages of the conversation that are already stored under other ids.

    If the first id is stored already, the caller's ids are stable, and nothing counts as repeated.
    Otherwise the beginning is compared with the end of the session, and, for clients that get a new
    thread for every run, with the messages stored last.
    """
    if not conversation or message_queries.messages_by_id(connection, [conversation[0].id]):
        return []
    depth = 4 * len(conversation)  # tool calls and results between the spoken messages count too
    in_session = message_queries.session_end(connection, conversation[0].session_id, depth)
    latest = message_queries.latest_messages(connection, depth)
    return _repeated(in_session, conversation, same_session=True) or _repeated(
        latest, conversation, same_session=False
    )


def _repeated(
    stored: Sequence[Message], sent: Sequence[Message], *, same_session: bool
) -> list[Message]:
    """The longest beginning of `sent` that equals the end of what is stored.

    Tool calls and their results are not compared, since clients often send only spoken messages.
    """
    before, spoken = _spoken(stored), _spoken(sent)
    for size in range(min(len(before), len(spoken)), 0, -1):
        tail = before[-size:]
        if all(map(_same, tail, spoken)) and _is_resent(tail, spoken, same_session):
            return list(sent[: sent.index(spoken[size - 1]) + 1])
    return []


def _is_resent(tail: list[Message], spoken: list[Message], same_session: bool) -> bool:
    """Whether the equal messages are the old ones sent again, and not new ones of the same words.

    They are when two or more are followed by new messages; when a single user message of the same
    session was never answered; and when an unanswered question is repeated, after a failure, with
    at least two messages before it.
    """
    unanswered = tail[-1].role == "user"
    if len(spoken) > len(tail):
        return len(tail) >= 2 or (same_session and unanswered)
    return unanswered and len(tail) >= 3


def _spoken(messages: Sequence[Message]) -> list[Message]:
    """The messages of user and assistant, without tool results and bare tool calls."""
    return [m for m in messages if m.role in ("user", "assistant") and not is_bare_call(m)]


def _same(stored: Message, sent: Message) -> bool:
    return (stored.role, stored.text) == (sent.role, sent.text)


def no_model_report(services: Services, user_id: str) -> FlushReport:
    """The report of a flush without a model: how many messages are pending."""
    pending = services.read(user_id, pending_messages.count_unread, 0)
    return FlushReport(status="no_model", pending=pending)
