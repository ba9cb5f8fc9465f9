"""Search for messages and sessions: candidates, ranking, and the messages of the best
places.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from langmem_graph.retrieval.ranking import (
    NOT_FOUND,
    Candidates,
    Ranking,
    Vector,
    as_scores,
)
from langmem_graph.retrieval.record_search import RankedRecords, found_records
from langmem_graph.retrieval.search_common import RoomSearch, Sought, telling
from langmem_graph.schemas import Message, MessageHit
from langmem_graph.storage import message_queries, record_queries, vector_rows
from langmem_graph.storage.full_text import MESSAGE_WORDS
from langmem_graph.storage.held_vectors import HeldVectors, State
from langmem_graph.storage.message_queries import Facts
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.superseded_labels import labelled_messages
from langmem_graph.storage.tables import MESSAGES
from langmem_graph.storage.vector_rows import Pieces
from langmem_graph.storage.words import Passes, TermCounts, query_terms

_SAME = set("session_id role origin name at text agent_id metadata room author".split())


def different(hits: Sequence[MessageHit]) -> list[MessageHit]:
    """The hits without repetitions: of equal texts by one speaker the newest, at the
    best place.
    """
    newest: dict[tuple[str | None, ...], MessageHit] = {}
    for hit in hits:
        text = (hit.role, hit.name, hit.text, hit.room, hit.author)
        newest[text] = max(
            newest.get(text, hit), hit, key=lambda same: (same.at, same.position)
        )
    return list(newest.values())


def gather(
    search: RoomSearch,
    connection: Reading,
    sought: Sought,
    ranked: RankedRecords | None = None,
) -> Candidates:
    """The best messages by vector, by words, by the days that the query names and by
    the records that cite them, joined.

    Where the vectors are held in memory, a thread compares them while words are looked
    up.
    """
    notes = search.notes
    state = State.of(connection)
    held = search.held(connection, state)
    sought = search.fitting(sought, state)
    vector = sought.vector
    passes = held.passing_filter(connection) if held else None
    compared = held.begin_comparing(vector) if held and vector is not None else None
    with notes.stage("words"):
        words = _by_words(search, connection, sought, passes, held)
    with notes.stage("vectors"):
        cosines = compared() if compared else None
        if held is None or cosines is None:
            near = search.near(connection, MESSAGES, vector, sought.dense)
        else:
            near = held.nearest(cosines, sought.dense, passes)
        near += search.said_on_days(connection, MESSAGES, sought)
    with notes.stage("records"):
        ranked = (
            ranked or found_records(search, connection, sought, state.record).ranked()
        )
        cited = _cited(connection, ranked, sought.dense)
    with notes.stage("exact"):
        items = _items(connection, {*words, *near, *cited}, passes)
        if held is None or cosines is None:
            pieces = _pieces(connection, items, vector)
            facts = message_queries.facts_of(connection, items)
        else:
            pieces = held.pieces_of(items, cosines)
            facts = held.facts_of(connection, items)
    stored = [facts[n] for n in items if n in facts]
    dense, spans = _best_pieces(stored, pieces)
    sessions = np.array([fact.session for fact in stored], dtype=np.int64)
    by_words = as_scores([words.get(fact.n, 0.0) for fact in stored])
    by_records = as_scores([cited.get(fact.n, 0.0) for fact in stored])
    return Candidates(
        sought.query,
        vector,
        stored,
        sessions,
        dense,
        by_words,
        search.scale(vector),
        spans,
        by_records,
        ranked,
        sought.days,
    )


def _items(connection: Reading, found: set[int], passes: Passes | None) -> list[int]:
    """The numbers of those that pass the filter, in order."""
    if passes is None:
        return sorted(connection.seen(MESSAGES, found))
    return sorted(n for n in found if passes[n])


def _pieces(connection: Reading, items: list[int], vector: Vector | None) -> Pieces:
    rows = vector_rows.vectors_of(connection, items if vector is not None else [])
    cosines = np.zeros(0, dtype=np.float32)
    if vector is not None and len(rows):
        cosines = vector_rows.cosines(rows.matrix, vector)
    return Pieces(rows.items, rows.spans, cosines)


def _cited(connection: Reading, ranked: RankedRecords, depth: int) -> dict[int, float]:
    """Messages that the best records cite which hold, each with its best record's
    score.
    """
    scores = dict(zip(ranked.numbers, ranked.scores.tolist(), strict=True))
    holding = [n for n in ranked.best_numbers() if n not in ranked.past][:depth]
    cited: dict[int, float] = {}
    for record, messages in record_queries.citing(connection, holding).items():
        for message in messages:
            cited[message] = max(scores[record], cited.get(message, 0.0))
    return cited


def _by_words(
    search: RoomSearch,
    connection: Reading,
    sought: Sought,
    passes: Passes | None,
    held: HeldVectors | None,
) -> dict[int, float]:
    """The messages with the best BM25 scores, of those that pass the filter."""
    known = search.message_terms
    if known is None and held is not None:
        having = held.word_counts(connection, query_terms(sought.query))
        known = TermCounts(held.state.message, having)
    newest = message_queries.newest_message(connection) if known is None else 0
    chosen, counted = telling(MESSAGE_WORDS, connection, sought.query, newest, known)
    among = connection.matching(MESSAGES) if passes is None else passes
    return dict(MESSAGE_WORDS.search(connection, chosen, sought.words, among, counted))


def _best_pieces(
    facts: list[Facts], pieces: Pieces
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Of each message the greatest cosine of its pieces, and where that piece begins
    and ends.

    The messages are in the order of their numbers.
    """
    numbers = np.array([fact.n for fact in facts], dtype=np.int64)
    dense = np.zeros(len(facts))
    spans = np.zeros((len(facts), 2), dtype=np.int64)
    best_first = np.lexsort((-pieces.cosines, pieces.items))
    items, first = np.unique(pieces.items[best_first], return_index=True)
    stored = np.isin(items, numbers)
    places = np.searchsorted(numbers, items[stored])
    best = best_first[first[stored]]
    dense[places], spans[places] = pieces.cosines[best], pieces.spans[best]
    return dense, spans


def hits_of(
    connection: Reading, found: Candidates, ranking: Ranking, best: Sequence[int]
) -> dict[int, MessageHit]:
    """The candidates at these places as hits, by place, in their order."""
    best = [place for place in best if ranking.scores[place] != NOT_FOUND]
    numbers = [found.facts[place].n for place in best]
    messages = labelled_messages(connection, numbers)
    hits = dict[int, MessageHit]()
    for place, n in zip(best, numbers, strict=True):
        message = messages.get(n)
        if message is None:  # of another room, and forgotten since it was found
            continue
        start, end = _without_speaker(found, place)
        excerpt = message.text[start:end] if end > start else message.text
        score = float(ranking.scores[place])
        signals = ranking.signals_of(place)
        hits[place] = as_hit(message, n, excerpt=excerpt, score=score, signals=signals)
    return hits


def as_hit(message: Message, n: int, **found: Any) -> MessageHit:
    """A message as a hit, with its number and, where a search found it, how it did."""
    same = {name: getattr(message, name) for name in _SAME}
    found = {"score": 0.0, "excerpt": message.text, **same, **found}
    return MessageHit(message_id=message.id, position=n, labels=message.labels, **found)


def _without_speaker(found: Candidates, place: int) -> tuple[int, int]:
    """The best piece's span in the message's own text; what is embedded begins
    `speaker: `.
    """
    name = found.facts[place].name
    prefix = len(f"{name}: ") if name else 0
    start, end = found.spans[place].tolist()
    return max(0, start - prefix), max(0, end - prefix)
