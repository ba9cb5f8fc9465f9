"""The messages that facts were made of."""

from collections.abc import Iterable

from langmem_graph.models import Fact, MessageHit
from langmem_graph.recall.facts import hits_by_id
from langmem_graph.store.room import Room


def messages_behind(room: Room, facts: Iterable[Fact]) -> dict[str, MessageHit]:
    """The facts' messages that are stored, by id."""
    ids = [one for fact in facts for one in fact.message_ids]
    if not ids:
        return {}
    with room.database.reading() as connection:
        return hits_by_id(connection, ids)


def evidence(quoted: Iterable[Fact], messages: dict[str, MessageHit]) -> list[MessageHit]:
    """The messages behind what was quoted, best first, each once."""
    ids = dict.fromkeys(one for fact in quoted for one in fact.message_ids)
    found = [messages[one] for one in ids if one in messages]
    return [hit.model_copy(update={"score": 1 / place}) for place, hit in enumerate(found, 1)]
