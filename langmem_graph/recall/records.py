"""Search in records, ranked as messages are; each has its sources."""

from collections.abc import Sequence
from datetime import datetime

from langmem_graph.intake import to_utc
from langmem_graph.models import Record, RecordHit
from langmem_graph.ranking.candidates import query_vector
from langmem_graph.ranking.records import RankedRecords, rank_records
from langmem_graph.ranking.search_parts import Depths, SearchNotes
from langmem_graph.recall.fast import check_query
from langmem_graph.services import Services
from langmem_graph.store import record_lookups
from langmem_graph.store.records import naive


def search_records(
    services: Services, user_id: str, query: str, k: int, as_of: object, explain: bool
) -> list[RecordHit]:
    """The best records, best first."""
    check_query(query, k)
    then = naive(to_utc(as_of)) if as_of is not None else None
    if not services.has(user_id):
        return []
    settings, notes = services.settings, SearchNotes()
    depths = Depths(max(settings.dense_candidates, k), max(settings.word_candidates, k))
    with services.room(user_id) as room:
        vector = query_vector(room, services.embedder, query, notes)
        with room.database.reading() as connection:
            ranked = rank_records(room, connection, query, vector, depths, notes, then)
            best = ranked.best(k)
            found = record_lookups.records_by_number(connection, [ranked.numbers[p] for p in best])
    return [_hit(found[ranked.numbers[p]], ranked, p, explain) for p in best]


def _hit(record: Record, ranked: RankedRecords, place: int, explain: bool) -> RecordHit:
    signals = {name: float(values[place]) for name, values in ranked.signals.items()}
    return RecordHit(
        at=record.said_at,
        score=float(ranked.scores[place]),
        signals=signals if explain else None,
        **record.model_dump(
            include={
                *("record_id", "kind", "text", "message_ids", "facet", "subject"),
                *("attribute", "confirmation", "status"),
            }
        ),
    )


def get_records(services: Services, user_id: str, ids: Sequence[str]) -> list[Record]:
    """Whole records in the order asked; unknown ids are left out."""
    if not services.has(user_id):
        return []
    with services.room(user_id) as room, room.database.reading() as connection:
        numbers = record_lookups.numbers_of(connection, ids)
        found = record_lookups.records_by_number(connection, numbers.values())
    return [found[numbers[one]] for one in dict.fromkeys(ids) if one in numbers]


def all_records(
    services: Services, user_id: str, as_of: datetime | None, *, history: bool = False
) -> list[Record]:
    """Every record that is true now, or was at a time, or (with `history`) ever; oldest first."""
    if not services.has(user_id):
        return []
    with services.room(user_id) as room, room.database.reading() as connection:
        if as_of is not None:
            numbers = record_lookups.numbers_true_at(connection, naive(as_of) or as_of)
        elif history:
            numbers = record_lookups.all_numbers(connection, None)
        else:
            every = record_lookups.all_numbers(connection, None)
            numbers = sorted(record_lookups.current(connection, every))
        found = record_lookups.records_by_number(connection, numbers)
    return [found[n] for n in sorted(found)]
