"""Whose words a thread holds: when another user goes on in it, only theirs go into their memory."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from langmem_graph.graphs.conversation import question_in


def owner_of(messages: Sequence[BaseMessage], user: str, before: object) -> dict[str, Any]:
    """Who speaks in the thread, and from which message on; kept in the graph's state.

    Args:
        messages: the conversation.
        user: whose turn it is.
        before: what this function returned in the thread's last turn, if anything.
    """
    known = before if isinstance(before, Mapping) else {}  # a server's client may send anything
    if known.get("user") == user:
        return {"user": user, "since": known.get("since")}
    question = question_in(messages)
    since = question[0].id if known and question else None
    return {"user": user, "since": since}


def own_part(messages: Sequence[BaseMessage], owner: Mapping[str, Any]) -> Sequence[BaseMessage]:
    """The owner's part of the conversation: all of it, where nobody spoke before."""
    ids = [message.id for message in messages]
    return messages[ids.index(owner["since"]) :] if owner["since"] in ids[1:] else messages
