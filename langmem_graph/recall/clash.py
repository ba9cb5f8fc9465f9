"""What a recall without a model says of the schedule at the time that the words name."""

from dataclasses import dataclass, field
from datetime import datetime

from langmem_graph.config import Settings
from langmem_graph.models import Fact
from langmem_graph.recall.collisions import Collision, colliding
from langmem_graph.schedule.spoken import spoken_time
from langmem_graph.store.room import Room


@dataclass(frozen=True)
class Clash:
    """What collides; empty where nothing does."""

    texts: list[str] = field(default_factory=list)
    items: list[tuple[str, list[Fact]]] = field(default_factory=list)
    """For the context: when and what, and the record, unless it is in view."""

    def facts(self) -> list[Fact]:
        """All that may be quoted."""
        return [fact for _, facts in self.items for fact in facts]


def clash_of_words(
    room: Room, request: str, now: datetime, settings: Settings, in_view: set[str]
) -> Clash:
    """Compare the time that the request's own words name with the schedule.

    Args:
        room: the user's.
        request: what the user says.
        now: when, in UTC.
        settings: zone and usual length.
        in_view: ids and texts of messages that are not quoted again.
    """
    asked = spoken_time(request, now, settings.time_zone)
    found = colliding(room, asked, settings) if asked else []
    texts = [one["text"] for one in found]
    return Clash(texts, [(one["line"], _fresh(one, in_view)) for one in found])


def _fresh(one: Collision, in_view: set[str]) -> list[Fact]:
    fact = Fact.model_validate(one["fact"])
    return [] if {fact.text, *fact.message_ids} & in_view else [fact]
