"""Which messages of a conversation that is given again are already stored, under other
ids.

Clients send the whole conversation with every turn, and not all of them name its
messages.
"""

from collections.abc import Sequence

from sqlalchemy import update

from langmem_graph.ids_and_times import is_unique
from langmem_graph.messages import UNNAMED, is_bare_call
from langmem_graph.schemas import Message
from langmem_graph.storage import message_queries
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.tables import READ_ROLES, note_deleted_vectors, sessions


def content_of(message: Message) -> tuple[str, str]:
    """What two messages have in common that are the same one."""
    return message.text, message.role


def known_again(connection: Reading, conversation: Sequence[Message]) -> list[Message]:
    """The messages of the conversation that are already stored under other ids.

    Where some are stored under their own, only those that came without one can be.
    Otherwise the beginning is compared with the end of the session, or, where that is
    new, with the latest one.
    """
    unnamed = any(message.id.startswith(UNNAMED) for message in conversation)
    ids = [message.id for message in conversation if message.role != "system"]
    found = message_queries.messages_by_id(connection, ids if unnamed else ids[:1])
    session = conversation[0].session_id if conversation else None
    stored = {
        one for one, m in found.items() if is_unique(one) or m.session_id == session
    }
    if not conversation or (stored and not unnamed):
        return []
    # tool calls and results between the spoken messages count too
    depth = 4 * len(conversation)
    in_session = message_queries.latest_messages(
        connection, depth, conversation[0].session_id
    )
    if stored:
        last = max(n for n, message in enumerate(conversation) if message.id in stored)
        return _unnamed_again(in_session, conversation, last)
    return _repeated(
        in_session or _continued(connection, conversation, depth), conversation
    )


def _unnamed_again(
    stored: list[Message], sent: Sequence[Message], last: int
) -> list[Message]:
    """The stored ones of those without an id, before and right after the last
    known id.
    """
    said = set(map(content_of, stored))
    places = {m.id: n for n, m in enumerate(stored, 1)}
    again = [message for message in sent[:last] if content_of(message) in said]
    again += _same_start(
        sent[last + 1 :], stored[places.get(sent[last].id, len(stored)) :]
    )
    return [message for message in again if message.id.startswith(UNNAMED)]


def _continued(
    connection: Reading, sent: Sequence[Message], depth: int
) -> list[Message]:
    """The latest session, where all of it is sent again: it takes the name of the new
    one.
    """
    latest = message_queries.latest_messages(connection, 1)
    name = latest[0].session_id if latest else None
    whole = message_queries.latest_messages(connection, depth, name)
    again = _repeated(whole, sent)
    if not again or len(whole) == depth or len(_spoken(again)) < len(_spoken(whole)):
        return []
    renamed = update(sessions).where(sessions.c.session_id == name)
    connection.execute(renamed.values(session_id=sent[0].session_id))
    # which filters its messages pass is not what was remembered
    note_deleted_vectors(connection)
    return whole


def _repeated(stored: Sequence[Message], sent: Sequence[Message]) -> list[Message]:
    """The longest beginning of `sent` whose words equal the end of what is stored."""
    # clients often leave tool calls out
    before = _spoken(stored)
    spoken = _spoken(sent)
    earlier = list(map(content_of, before))
    now_sent = list(map(content_of, spoken))
    for size in range(min(len(before), len(spoken)), 0, -1):
        if earlier[-size:] == now_sent[:size]:
            after = stored.index(before[-1]) + 1
            end = sent.index(spoken[size - 1]) + 1
            if _is_resent(before[-size:], sent[end:], sent[0].session_id):
                return [*sent[:end], *_same_start(sent[end:], stored[after:])]
    return []


def _same_start(sent: Sequence[Message], stored: Sequence[Message]) -> list[Message]:
    """The first messages of `sent` that equal the first of what is stored."""
    same = [
        content_of(one) == content_of(other)
        for one, other in zip(sent, stored, strict=False)
    ]
    return list(sent[: [*same, False].index(False)])


def _is_resent(tail: list[Message], rest: Sequence[Message], session_id: str) -> bool:
    """Whether the equal messages are the old ones sent again: others follow two or
    more.

    Or a single user message of the session that was never answered; or an unanswered
    question is repeated, after a failure, with at least two messages before it.
    """
    unanswered = tail[-1].role == "user"
    if rest:
        return len(tail) >= 2 or (unanswered and tail[-1].session_id == session_id)
    return unanswered and len(tail) >= 3


def _spoken(messages: Sequence[Message]) -> list[Message]:
    """The messages of user and assistant, without tool results, bare tool calls and
    hand-offs.
    """
    talk = [m for m in messages if m.role in READ_ROLES and m.origin != "plumbing"]
    return [message for message in talk if not is_bare_call(message)]
