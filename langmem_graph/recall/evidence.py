"""evidence: the messages that facts were made of."""

from collections.abc import Iterable

from sqlalchemy import Connection

from langmem_graph.models import Fact, MessageHit
from langmem_graph.store import lookups, record_lookups


def messages_behind(connection: Connection, facts: Iterable[Fact]) -> dict[str, MessageHit]:
    """The facts' messages that are stored, by id."""
    ids = {one for fact in facts for one in fact.message_ids}
    numbers = record_lookups.message_numbers(connection, ids)
    return {
        one: MessageHit(
            message_id=one,
            score=0.0,
            position=numbers[one][0],
            excerpt=message.text,
            **message.model_dump(include={"session_id", "role", "name", "at", "text"}),
        )
        for one, message in lookups.messages_by_id(connection, ids).items()
    }


def evidence(quoted: Iterable[Fact], messages: dict[str, MessageHit]) -> list[MessageHit]:
    """The messages behind what was quoted, best first, each once."""
    ids = dict.fromkeys(one for fact in quoted for one in fact.message_ids)
    found = [messages[one] for one in ids if one in messages]
    return [hit.model_copy(update={"score": 1 / place}) for place, hit in enumerate(found, 1)]
