"""resent: what a stateless client repeats of a conversation, under new ids, is known.

LangGraph names messages that come without an id anew in every run. A client that sends the whole
conversation with each turn would otherwise store it again and again.
"""

from collections.abc import Sequence

from sqlalchemy import Connection

from langmem_graph.models import Message
from langmem_graph.store import lookups

SHORTEST = 2
"""One repeated line may be said twice; two in a row, with more to follow, are the conversation."""


def known_again(connection: Connection, conversation: Sequence[Message]) -> list[str]:
    """The stored ids of the conversation's first messages, as far as the session ends with them.

    Something new must follow: a turn that merely says the same again is kept.
    """
    if len(conversation) <= SHORTEST or lookups.messages_by_id(connection, [conversation[0].id]):
        return []  # a known id: ids are stable here
    stored = lookups.session_end(connection, conversation[0].session_id, len(conversation) - 1)
    for size in range(len(stored), SHORTEST - 1, -1):
        tail = stored[-size:]
        if all(map(_same, tail, conversation)):
            return [message.id for message in tail]
    return []


def _same(one: Message, other: Message) -> bool:
    said = (one.role, one.text, one.tool_call_id) == (other.role, other.text, other.tool_call_id)
    return said and one.tool_calls == other.tool_calls
