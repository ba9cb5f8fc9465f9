"""What a recall without a model says of the schedule at the time that the words name."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from langmem_graph.config import Settings
from langmem_graph.intake import to_utc
from langmem_graph.models import Fact, MessageHit, Reasoning, Recall
from langmem_graph.recall.collisions import Collision, colliding
from langmem_graph.recall.facts import hits_by_id
from langmem_graph.recall.quotes import AGAINST, fact_line
from langmem_graph.schedule.spoken import spoken_time
from langmem_graph.store.room import Room


@dataclass(frozen=True)
class Clash:
    """What collides; empty where nothing does."""

    texts: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """For the context."""
    facts: list[Fact] = field(default_factory=list)
    messages: list[MessageHit] = field(default_factory=list)
    """What the facts lead back to."""

    def noted_in(self, outcome: Recall) -> Recall:
        """The outcome with what collides; facts and evidence only where the context shows them."""
        if not self.texts:
            return outcome
        known = {hit.message_id for hit in outcome.evidence}
        further = [hit for hit in self.messages if hit.message_id not in known]
        shown = set(self.lines) <= set(outcome.context.splitlines())
        changes = {"facts": self.facts, "evidence": [*outcome.evidence, *further]} if shown else {}
        return outcome.model_copy(update={"reasoning": Reasoning(overlaps=self.texts), **changes})


def clash_of_words(
    room: Room, request: str, at: object, settings: Settings, in_view: set[str]
) -> Clash:
    """Compare the time that the request's own words name with the schedule.

    Args:
        room: the user's.
        request: what the user says.
        at: when; None is now.
        settings: zone and usual length.
        in_view: ids and texts of messages that are not quoted again.
    """
    now = datetime.now(UTC) if at is None else to_utc(at)
    asked = spoken_time(request, now, settings.time_zone)
    found = colliding(room, asked, settings) if asked else []
    if not found:
        return Clash()
    facts = [fact for one in found if (fact := _fresh(one, in_view))]
    ids = [message for fact in facts for message in fact.message_ids]
    with room.database.reading() as connection:
        messages = hits_by_id(connection, ids)
    lines = [AGAINST, *(line for one in found for line in _lines(one, in_view))]
    return Clash([one["text"] for one in found], lines, facts, list(messages.values()))


def _fresh(one: Collision, in_view: set[str]) -> Fact | None:
    fact = Fact.model_validate(one["fact"])
    return None if {fact.text, *fact.message_ids} & in_view else fact


def _lines(one: Collision, in_view: set[str]) -> list[str]:
    fact = _fresh(one, in_view)
    return [f"- {one['line']}", *([f"  {fact_line(fact)}"] if fact else [])]
