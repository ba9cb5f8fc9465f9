"""The schedule as an agenda: what takes place between two times, and what collides with what."""

from datetime import datetime

from sqlalchemy import Connection

from langmem_graph.reports import Occurrence
from langmem_graph.retrieval.what_is_ahead import PlannedItem, fills_days, planned_items
from langmem_graph.schedule.times import Span
from langmem_graph.settings import Settings
from langmem_graph.storage.superseded_labels import labelled_records

MOST = 500  # occurrences of one agenda
MOST_OF_ONE = 100  # occurrences of one recurring item


def agenda(
    connection: Connection, since: datetime, until: datetime, settings: Settings
) -> list[Occurrence]:
    """All that takes place between two times, the earliest first; clashes as `recall` sees them."""
    minutes = settings.event_minutes
    found = [
        (span, item)
        for item in planned_items(connection, since, settings, None)
        for span in item.occurrences(since, until, MOST_OF_ONE, minutes)
    ]
    found = sorted(found, key=lambda one: (one[0], one[1].n))[:MOST]
    whole = labelled_records(connection, {item.n for _, item in found})
    clashing = _clashes(found)
    return [
        Occurrence(
            begin=span[0],
            end=span[1],
            timed=item.event.granularity == "minute",
            time_zone=item.event.time_zone or "UTC",
            recurs=item.event.recurrence is not None,
            record=whole[item.n],
            clashes=[whole[n].record_id for n in sorted(clashing[place])],
        )
        for place, (span, item) in enumerate(found)
    ]


def _clashes(found: list[tuple[Span, PlannedItem]]) -> list[set[int]]:
    """Of each occurrence, the numbers of the other records that take place at the same time."""
    clashing: list[set[int]] = [set() for _ in found]
    running: list[int] = []
    for place, (span, item) in enumerate(found):
        if item.event.granularity in ("month", "year") or fills_days(item):
            continue
        running = [other for other in running if found[other][0][1] > span[0]]
        for other in running:
            if found[other][1].n != item.n:
                clashing[place].add(found[other][1].n)
                clashing[other].add(item.n)
        running.append(place)
    return clashing
