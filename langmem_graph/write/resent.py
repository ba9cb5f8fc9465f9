"""resent: what a stateless client repeats of a conversation, under new ids, is known.

LangGraph names messages that come without an id anew in every run. A client that sends the whole
conversation with each turn would otherwise store it again and again.
"""

from collections.abc import Sequence

from sqlalchemy import Connection

from langmem_graph.intake import is_bare_call
from langmem_graph.models import Message
from langmem_graph.store import lookups


def known_again(connection: Connection, conversation: Sequence[Message]) -> list[Message]:
    """The conversation's first messages, as far as they are stored already under other ids.

    A known id means that ids are stable here, and nothing is taken for repeated. Otherwise the
    beginning is compared with the end of the session, and, for a client that gets a new thread for
    every run, with what was stored last.
    """
    if not conversation or lookups.messages_by_id(connection, [conversation[0].id]):
        return []
    depth = 4 * len(conversation)  # a spoken message may stand for several with tool calls
    in_session = lookups.session_end(connection, conversation[0].session_id, depth)
    latest = lookups.latest_messages(connection, depth)
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
