"""Which older records a call shows, so that new messages can change them.

A change can only name what was shown. So records are looked for with every message, and every
sentence of the user's, as the query: by their own words and by those of the messages that they were
made of, and through what the found ones are about. The session's own records, coming appointments
and instructions are added. The second half finds records that were not shown (`reconcile`).
"""

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta

import numpy as np
from sqlalchemy import Connection

from langmem_graph.extraction.state import Candidate
from langmem_graph.retrieval.message_search import search_different
from langmem_graph.retrieval.search_common import UserSearch, Vector, best_cosines
from langmem_graph.schedule.times import event_in, occurrences
from langmem_graph.schemas import Message, Record
from langmem_graph.settings import Settings
from langmem_graph.storage import graph_neighbours, record_queries, vector_rows
from langmem_graph.storage.tables_and_migrations import RECORDS

TOKENS, BYTES_PER_TOKEN, TOKENS_OF_LINE = 1_500, 4, 15
"""Of all records shown in a call, about, and of a line without its text; own figures, as are the
following."""
PER_QUERY, MAX_QUERIES, QUERY_CHARS = 8, 40, 400
SHORT_CHARS = 80
"""A shorter message is looked up together with what was said before it."""
MOST_SENTENCES, SHORTEST_SENTENCE = 6, 16
"""Of a message of the user's, the last ones of so many bytes are looked up by themselves too."""
OF_SESSION, SAME_ATTRIBUTE, COMING, INSTRUCTIONS = 6, 3, 6, 4
PER_TEXT = 4
"""Records found for each text that the model asks for."""
AHEAD = timedelta(days=60)
RRF_K = 60
NEAR_SHARE, FAR_BATCHES, SAMPLE, FEW = 0.85, 0.7, 200, 20
"""A record is near a new statement where it is nearer than 85 of 100 records are to their nearest
one, and than so many more where a batch has many statements that 70 of 100 batches of unrelated
statements have no near record; measured on a sample of the user's own. With fewer records than
`FEW`, `DEFAULT_NEAR` holds."""
DEFAULT_NEAR = 0.6
"""For MiniLM; ours."""
_END_OF_SENTENCE = re.compile(r"(?<=[.!?;。！？])\s*|\n")

Numbered = list[tuple[int, Message]]


def records_in_view(
    search: UserSearch, connection: Connection, new: Numbered, before: Numbered
) -> list[tuple[int, Record]]:
    """The records that these messages may change, oldest first."""
    settings = search.settings
    queries, own_numbers = _queries(new, before), {n for n, _ in [*before, *new]}
    found = _by_search(search, connection, queries, own_numbers)
    about = graph_neighbours.of_same_attribute(connection, found[:PER_QUERY], SAME_ATTRIBUTE)
    own = graph_neighbours.made_from(connection, [n for n, _ in before], OF_SESSION)
    coming = _coming(connection, new[-1][1], settings) if new else []
    rules = record_queries.newest_instructions(connection, INSTRUCTIONS)
    wanted = list(dict.fromkeys([*own, *_alternating(found, about, coming, rules)]))
    holding = record_queries.current(connection, wanted)
    records = record_queries.records_by_number(connection, [n for n in wanted if n in holding])
    left, kept = float(TOKENS), list[tuple[int, Record]]()
    for n in (n for n in wanted if n in records):
        left -= len(records[n].text.encode()) / BYTES_PER_TOKEN + TOKENS_OF_LINE
        if left < 0 or len(kept) == settings.extraction.records_shown:
            break
        kept.append((n, records[n]))
    return sorted(kept, key=lambda one: (one[1].said_at, one[0]))


def _queries(new: Numbered, before: Numbered) -> list[str]:
    """One query for each message; the assistant's often name what the user only hints at."""
    queries, earlier = list[str](), before[-1][1].text if before else ""
    for _, message in new:
        said = message.text[-QUERY_CHARS:]
        is_short = len(said) < SHORT_CHARS
        queries.append(f"{earlier[-QUERY_CHARS:]}\n{said}" if is_short else said)
        queries += _sentences(message.text) if message.role == "user" else []
        earlier = message.text
    while len(queries) > MAX_QUERIES:
        queries = ["\n".join(queries[i : i + 2]) for i in range(0, len(queries), 2)]
    return [query for query in queries if query.strip()]


def _sentences(text: str) -> list[str]:
    """The last sentences of several; each may tell of another matter."""
    parts = [part.strip() for part in _END_OF_SENTENCE.split(text)]
    long = [part[:QUERY_CHARS] for part in parts if len(part.encode()) >= SHORTEST_SENTENCE]
    return long[-MOST_SENTENCES:] if len(long) > 1 else []


def _by_search(
    search: UserSearch, connection: Connection, queries: Sequence[str], own: Collection[int]
) -> list[int]:
    """Records found by the queries, best first, by reciprocal rank fusion.

    Args:
        own: numbers of the messages that are shown anyway.
    """
    scores = dict[int, float]()
    for query in queries:
        hits, ranked = search_different(search, query, PER_QUERY + len(own))
        behind = [hit.position for hit in hits if hit.position not in own][:PER_QUERY]
        by_message = graph_neighbours.citing_messages(connection, behind)
        for numbers in (ranked.best_numbers()[:PER_QUERY], by_message):
            for rank, n in enumerate(numbers, 1):
                scores[n] = scores.get(n, 0.0) + 1 / (RRF_K + rank)
    return sorted(scores, key=lambda n: -scores[n])


def _alternating(found: list[int], *others: list[int]) -> Iterable[int]:
    """The best of the search, then in turns the others and the rest of the search."""
    yield from found[:PER_QUERY]
    lists = [*others, found[PER_QUERY:]]
    for place in range(max(map(len, lists), default=0)):
        yield from (numbers[place] for numbers in lists if place < len(numbers))


def _coming(connection: Connection, last: Message, settings: Settings) -> list[int]:
    """The next items of the schedule, the soonest first; of recurring ones every one."""
    soonest = list[tuple[object, int]]()
    for row in record_queries.scheduled(connection, last.at):
        event = event_in(row.event, settings.time_zone) if row.is_active else None
        spans = occurrences(event, last.at, last.at + AHEAD, 1) if event else []
        soonest += [(spans[0][0], row.n)] if spans else []
    return [n for _, n in sorted(soonest, key=lambda one: (str(one[0]), one[1]))[:COMING]]


def unseen_near(
    search: UserSearch, candidates: Sequence[Candidate], seen: set[int], most: int
) -> list[int]:
    """Active records near new statements that no call has shown, the nearest first.

    Near are those of the same subject and attribute, and those that are more alike than records of
    this user mostly are to their nearest one.
    """
    if not candidates:
        return []
    with search.room.database.read_transaction() as connection:
        same = [
            n
            for candidate in candidates
            for n in graph_neighbours.of_attribute(
                connection, candidate.memory.subject, candidate.memory.attribute, most
            )
        ]
        alike = _alike(search, connection, [c.memory.text for c in candidates])
        near = dict.fromkeys([*same, *alike])
        holding = record_queries.current(connection, near)
    return [n for n in near if n in holding and n not in seen][:most]


def unseen_meant(search: UserSearch, texts: Sequence[str], seen: set[int]) -> list[int]:
    """Active records that were not shown and may be what these texts tell of, in turns."""
    found = list[list[int]]()
    with search.room.database.read_transaction() as connection:
        for text in texts:
            numbers = _by_search(search, connection, [text], ())
            holding = record_queries.current(connection, numbers)
            found.append([n for n in numbers if n in holding and n not in seen][:PER_TEXT])
    places = range(max(map(len, found), default=0))
    return list(dict.fromkeys(one[place] for place in places for one in found if place < len(one)))


def _alike(search: UserSearch, connection: Connection, texts: Sequence[str]) -> list[int]:
    """Records whose likeness to one of the texts is above the user's own level, nearest first."""
    vectors = [search.vector(text) for text in texts]
    level, best = near_level(connection, len(texts)), dict[int, float]()
    blocks = list(vector_rows.all_vectors(connection, RECORDS))
    for vector in vectors:
        if vector is not None:
            for n, cosine in best_cosines(blocks, vector).items():
                best[n] = max(cosine, best.get(n, 0.0))
    near = [n for n, cosine in best.items() if cosine >= level]
    return sorted(near, key=lambda n: -best[n])


def near_level(connection: Connection, statements: int = 1) -> float:
    """The cosine from which a record counts as near, calibrated on the user's own records."""
    numbers = record_queries.all_numbers(connection)
    if len(numbers) < FEW:
        return DEFAULT_NEAR
    step = max(1, len(numbers) // SAMPLE)
    matrix = vector_rows.vectors_of(connection, numbers, RECORDS).matrix
    share = max(NEAR_SHARE, FAR_BATCHES ** (1 / statements))
    return _quantile_of_nearest(matrix, step, share) if len(matrix) >= FEW else DEFAULT_NEAR


def _quantile_of_nearest(matrix: Vector, step: int, share: float) -> float:
    cosines = matrix[::step] @ matrix.T
    for row, own in enumerate(range(0, len(matrix), step)):
        cosines[row, own] = -1.0
    return float(np.quantile(cosines.max(axis=1), share))
