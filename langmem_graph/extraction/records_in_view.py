"""Which older records a call shows, so that new messages can change them.

Every message, and every sentence of the user's, is a query for records, by their own
words and by those of the messages they were made of. What is of the same matter, the
session's own records, coming appointments and instructions are added. `unseen` finds
what was not shown (`reconcile`).
"""

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from typing import NamedTuple

import numpy as np

from langmem_graph.extraction.claim_due_batch import MAX_MESSAGE_BYTES
from langmem_graph.extraction.state import Candidate
from langmem_graph.ids_and_times import window_edge
from langmem_graph.retrieval.joined_search import search_different
from langmem_graph.retrieval.ranking import Vector
from langmem_graph.retrieval.search_common import RoomSearch, UserSearch, best_cosines
from langmem_graph.schedule.times import event_in, occurrences
from langmem_graph.schemas import Message, Record
from langmem_graph.settings import Settings
from langmem_graph.storage import graph_neighbours, record_queries, vector_rows
from langmem_graph.storage.reading import EVERYTHING, Reading
from langmem_graph.storage.tables import RECORDS

# of all records shown in a call, about; own figure, as are the following
TOKENS = 1_500
BYTES_PER_TOKEN, TOKENS_OF_LINE = 4, 15  # the second of a line without its text
PER_QUERY = 8
MAX_QUERIES = 40
QUERY_CHARS = 400
ORDINARY_BYTES = 8_000
"""Of messages: a batch so many times longer is shown as many times more records, and
looked up by as many times more queries. What is shown here saves a second call.
"""
SHORT_CHARS = 80  # a shorter message is looked up together with what was said before it
# of a message: the last ones, of so many bytes
MOST_SENTENCES = 6
SHORTEST_SENTENCE = 16
OF_SESSION = 6
SAME_ATTRIBUTE = 3
COMING = 6
INSTRUCTIONS = 4
OF_MATTER = 10  # of one subject and attribute, the newest that are compared
AHEAD = timedelta(days=60)
RRF_K = 60
NEAR_SHARE, FAR_BATCHES, SAMPLE, FEW = 0.85, 0.7, 200, 20
"""A record is near a new statement where it is nearer than 85 of 100 records are to
their nearest one, and than more for many statements, so that 70 of 100 batches of
unrelated ones have no near record; measured on a sample of the user's own. With fewer
than `FEW`, see `DEFAULT_NEAR`.
"""
MEANT_SHARE = 0.5
"""What shares a statement's subject and attribute, or what the model asks for after a
large change, needs to be nearer than half of the records are to their nearest one; with
fewer than `FEW`, nothing.
"""
DEFAULT_NEAR = 0.6  # for MiniLM; ours
PER_SENTENCE = 8  # records shown for each sentence that the model asks for; ours
_END_OF_SENTENCE = re.compile(r"(?<=[.!?;。！？])\s*|\n")

Numbered = list[tuple[int, Message]]


def records_in_view(
    search: RoomSearch, new: Numbered, before: Numbered
) -> list[tuple[int, Record]]:
    """The records that these messages may change, oldest first."""
    settings = search.settings
    share = share_of(message for _, message in new)
    queries = _queries(new, before, round(MAX_QUERIES * share))
    own_numbers = {n for n, _ in [*before, *new]}
    # before: a search takes a connection of its own, and the last may be waited for
    searched = [_searched(search, query, own_numbers) for query in queries]
    with search.room.database.read_transaction(EVERYTHING) as connection:
        found = _fused(connection, searched)
        about = graph_neighbours.of_same_attribute(
            connection, found[:PER_QUERY], SAME_ATTRIBUTE
        )
        own = graph_neighbours.made_from(connection, [n for n, _ in before], OF_SESSION)
        coming = _coming(connection, new[-1][1], settings) if new else []
        rules = record_queries.newest_instructions(connection, INSTRUCTIONS)
        wanted = list(dict.fromkeys([*own, *_alternating(found, about, coming, rules)]))
        holding = record_queries.current(connection, wanted)
        records = record_queries.records_by_number(
            connection, [n for n in wanted if n in holding]
        )
    numbered = [(n, records[n]) for n in wanted if n in records]
    most = round(settings.extraction.records_shown * share)
    kept = _fitting(numbered[:most], TOKENS * share)
    return sorted(kept, key=lambda one: (one[1].said_at, one[0]))


def _fitting(
    numbered: Iterable[tuple[int, Record]], tokens: float
) -> list[tuple[int, Record]]:
    """The first records whose lines have about so many tokens together."""
    kept = list[tuple[int, Record]]()
    for n, record in numbered:
        tokens -= len(record.text.encode()) / BYTES_PER_TOKEN + TOKENS_OF_LINE
        if tokens < 0:
            break
        kept.append((n, record))
    return kept


def share_of(messages: Iterable[Message]) -> float:
    """How many times more records a batch is shown than one of ordinary length."""
    sizes = (min(len(message.text.encode()), MAX_MESSAGE_BYTES) for message in messages)
    return max(1.0, sum(sizes) / ORDINARY_BYTES)


def _queries(new: Numbered, before: Numbered, most: int) -> list[str]:
    """One query for each message; the assistant's often name what the user only hints
    at.
    """
    queries = list[str]()
    earlier = before[-1][1].text if before else ""
    for _, message in new:
        said = message.text[-QUERY_CHARS:]
        is_short = len(said) < SHORT_CHARS
        queries.append(f"{earlier[-QUERY_CHARS:]}\n{said}" if is_short else said)
        queries += _sentences(message.text) if message.role == "user" else []
        earlier = message.text
    while len(queries) > most:
        queries = ["\n".join(queries[i : i + 2]) for i in range(0, len(queries), 2)]
    return [query for query in queries if query.strip()]


def _sentences(text: str) -> list[str]:
    """The last sentences of several; each may tell of another matter."""
    parts = [part.strip() for part in _END_OF_SENTENCE.split(text)]
    long = [
        part[:QUERY_CHARS] for part in parts if len(part.encode()) >= SHORTEST_SENTENCE
    ]
    return long[-MOST_SENTENCES:] if len(long) > 1 else []


class _Searched(NamedTuple):
    messages: list[int]
    records: list[int]


def _searched(search: RoomSearch, query: str, own: Collection[int]) -> _Searched:
    """The best messages and records for a query; `own` messages are shown anyway."""
    most = PER_QUERY + len(own)
    hits, [(_, ranked)] = search_different(UserSearch((search,)), query, most)
    behind = [hit.position for hit in hits if hit.position not in own]
    return _Searched(behind[:PER_QUERY], ranked.best_numbers()[:PER_QUERY])


def _fused(connection: Reading, searched: Iterable[_Searched]) -> list[int]:
    """The records that were found, and those that cite messages that were found; best
    first, by rank fusion.
    """
    scores = dict[int, float]()
    for found in searched:
        by_message = graph_neighbours.citing_messages(connection, found.messages)
        for numbers in (found.records, by_message):
            for rank, n in enumerate(numbers, 1):
                scores[n] = scores.get(n, 0.0) + 1 / (RRF_K + rank)
    return sorted(scores, key=lambda n: -scores[n])


def _alternating(found: list[int], *others: list[int]) -> Iterable[int]:
    """The best of the search, then in turns the others and the rest of the search."""
    yield from found[:PER_QUERY]
    lists = [*others, found[PER_QUERY:]]
    for place in range(max(map(len, lists), default=0)):
        yield from (numbers[place] for numbers in lists if place < len(numbers))


def _coming(connection: Reading, last: Message, settings: Settings) -> list[int]:
    """The next items of the schedule, the soonest first; of recurring ones
    every one.
    """
    soonest = list[tuple[object, int]]()
    until = window_edge(last.at, AHEAD)
    for row in record_queries.scheduled(connection, last.at):
        event = event_in(row.event, settings.time_zone) if row.is_active else None
        spans = occurrences(event, last.at, until, 1) if event else []
        soonest += [(spans[0][0], row.n)] if spans else []
    return [
        n for _, n in sorted(soonest, key=lambda one: (str(one[0]), one[1]))[:COMING]
    ]


class Wanted(NamedTuple):
    """What the model asks for: sentences as a record may say them."""

    look_for: Sequence[str]
    widely: bool
    """After a large change: also what a record says only roughly."""


def unseen(
    search: RoomSearch, candidates: Sequence[Candidate], wanted: Wanted, seen: set[int]
) -> list[int]:
    """Active records that no call has shown and that new statements may change.

    First what is alike to what the model asks for, then what has a statement's subject
    and attribute, and then what is nearer to one than this user's records mostly are to
    each other. Where there is any, a call is made anyway: it also shows what is nearest
    to each sentence that the model asks for, however near that is.
    """
    look_for = wanted.look_for
    if not candidates and not look_for:
        return []
    texts = [candidate.memory.text for candidate in candidates]
    vectors = {text: search.vector(text) for text in (*look_for, *texts)}
    with search.room.database.read_transaction(EVERYTHING) as connection:
        asked = _best_cosines(connection, [vectors[text] for text in look_for])
        told = _best_cosines(connection, [vectors[text] for text in texts])
        low, high = _levels(connection, len(texts))
        same = [
            n
            for n in _of_same_matter(connection, candidates)
            if told.get(n, low) >= low
        ]
        meant = _from(asked, low if wanted.widely else high)
        near = [*meant, *same, *_from(told, high)]
        asked_vectors = [vectors[text] for text in look_for]
        nearest = list(_nearest_to_each(connection, asked_vectors, seen))
        holding = record_queries.current(connection, [*near, *nearest])
    if not any(n in holding and n not in seen for n in near):
        return []
    most = search.settings.extraction.records_reconciled
    shown = dict.fromkeys([*near, *nearest])
    return [n for n in shown if n in holding and n not in seen][:most]


def _nearest_to_each(
    connection: Reading, vectors: Sequence[Vector | None], seen: Collection[int]
) -> Iterable[int]:
    """The nearest records of each vector in turns, without those that were shown."""
    ranked = []
    for vector in vectors:
        cosines = _best_cosines(connection, [vector])
        unshown = [n for n in _from(cosines, -1.0) if n not in seen]
        ranked.append(unshown[:PER_SENTENCE])
    for place in range(PER_SENTENCE):
        yield from (numbers[place] for numbers in ranked if place < len(numbers))


def _of_same_matter(
    connection: Reading, candidates: Sequence[Candidate]
) -> Iterable[int]:
    for memory in (candidate.memory for candidate in candidates):
        yield from graph_neighbours.of_attribute(
            connection, memory.subject, memory.attribute, OF_MATTER
        )


def _best_cosines(
    connection: Reading, vectors: Sequence[Vector | None]
) -> dict[int, float]:
    """How alike each record is to the nearest of the vectors."""
    blocks = list(vector_rows.all_vectors(connection, RECORDS))
    best = dict[int, float]()
    for vector in vectors:
        if vector is not None:
            for n, cosine in best_cosines(blocks, vector).items():
                best[n] = max(cosine, best.get(n, 0.0))
    return best


def _from(cosines: dict[int, float], level: float) -> list[int]:
    """The records of at least this likeness, the nearest first."""
    return sorted(
        (n for n in cosines if cosines[n] >= level), key=lambda n: -cosines[n]
    )


def _levels(connection: Reading, statements: int) -> tuple[float, float]:
    """The cosines from which a record may be meant and is near, by the user's own
    records.
    """
    numbers = record_queries.all_numbers(connection)
    step = max(1, len(numbers) // SAMPLE)
    matrix = vector_rows.vectors_of(connection, numbers, RECORDS).matrix
    if len(matrix) < FEW:
        return 0.0, DEFAULT_NEAR
    near_share = max(NEAR_SHARE, FAR_BATCHES ** (1 / max(1, statements)))
    cosines = matrix[::step] @ matrix.T
    for row, own in enumerate(range(0, len(matrix), step)):
        cosines[row, own] = -1.0
    low, high = np.quantile(cosines.max(axis=1), [MEANT_SHARE, near_share])
    return float(low), float(high)
