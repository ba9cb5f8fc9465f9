"""forget: what the user asks to be forgotten is taken out of every text that tells it.

The call that reads the messages names the request. Here a second call is shown the
texts that may tell the thing, and says which of their words go; `commit` takes them
out. Nothing is removed for words that are not the user's own, and a request for
everything is only reported: `erase` is the way.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from sqlalchemy import select

from langmem_graph.extraction.batch_view import message_lines, record_lines
from langmem_graph.extraction.state import (
    BatchView,
    Candidate,
    Dependencies,
    ExtractionState,
    ShownMessage,
    ToForget,
    counts_of,
    usage_of,
)
from langmem_graph.llm.answer_schemas import Removal
from langmem_graph.llm.structured_calls import RunUsage, load_prompt
from langmem_graph.retrieval.joined_search import search_different
from langmem_graph.retrieval.quoted_context import as_data
from langmem_graph.retrieval.search_common import UserSearch
from langmem_graph.runtime import StepRun
from langmem_graph.schemas import Record
from langmem_graph.storage import message_queries, record_queries
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.reading import EVERYTHING, Reading
from langmem_graph.storage.tables import SPOKEN, messages, record_sources, records
from langmem_graph.storage.user_room import Room
from langmem_graph.values.matching import holds, is_telling

PER_QUERY = 12  # messages, and records, that each query adds; own figures
# messages around one that tells it: what it answers, and what repeats it
BEFORE = 6
AFTER = 3
MOST_ROUNDS = (
    3  # of calls: what repeats removed words elsewhere is shown in a further one
)
QUERY_CHARS = 400  # of the message that asks
SHORTEST = 2  # characters of removed words that are looked for elsewhere


@dataclass
class _Texts:
    """The texts that may tell what shall be forgotten, by number."""

    messages: dict[int, ShownMessage] = field(default_factory=dict)
    records: dict[int, Record] = field(default_factory=dict)


class _Removed(NamedTuple):
    """The words to be removed, by the number of their text or the candidate's place."""

    messages: dict[int, list[str]]
    records: dict[int, list[str]]
    candidates: dict[int, list[str]]
    names: set[str]
    """What shall be forgotten, bare: other texts that hold it are shown too."""


async def forget(
    deps: Dependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Ask which words of which texts tell what shall be forgotten."""
    view = state["view"]
    usage = usage_of(state)
    counts = counts_of(state)
    requests, reasons = _usable(state["requests"], view)
    candidates = state.get("candidates", [])
    told = [one for one in requests if one.everything]
    for request in [one for one in requests if not one.everything]:
        asked = _Request(request, view, candidates)
        removed = await _removed_words(deps, asked, run, usage)
        if removed is None:
            return {"usage": usage, "failed": "forget"}
        candidates = _without(candidates, removed.candidates)
        words = {"messages": removed.messages, "records": removed.records}
        told.append(request.model_copy(update=words))
    return {
        "requests": told,
        "candidates": candidates,
        "usage": usage,
        "counts": counts.plus(*reasons),
    }


class _Request(NamedTuple):
    """One request, and what the first call was shown and answered."""

    request: ToForget
    view: BatchView
    candidates: Sequence[Candidate | None]


async def _removed_words(
    deps: Dependencies, asked: _Request, run: StepRun, usage: RunUsage
) -> _Removed | None:
    """The words that go; None where the model gave no usable answer."""
    removed = _Removed({}, {}, {}, set())
    shown = _Texts()
    for _ in range(MOST_ROUNDS):
        look = partial(_look, deps.services, asked, removed)
        texts = await deps.services.in_room(run.user, look)
        fresh = _fresh(texts, shown)
        if not fresh.messages and not fresh.records:
            break
        question, numbered = _question(fresh, asked)
        answer = await deps.runner.ask(Removal, load_prompt("forget"), question, usage)
        if answer is None:
            return None
        _take_words(answer, fresh, numbered, removed)
        shown.messages |= fresh.messages
        shown.records |= fresh.records
    return removed


def _usable(
    requests: Sequence[ToForget], view: BatchView
) -> tuple[list[ToForget], list[str]]:
    """The requests in the user's own words, and why the others are none."""
    shown = {one.n: one for one in view.messages.values()}
    usable = []
    reasons = []
    for request in requests:
        message = shown[request.message].message
        quotes = tuple(q for q in request.quotes if _is_said(message.text, q))
        if not shown[request.message].is_new:
            reasons.append("forget: the message is not among the new ones")
        elif message.role != "user" or message.origin != "user":
            reasons.append("forget: the words are not the user's")
        elif not quotes:
            reasons.append("forget: the quote does not stand in the message")
        else:
            usable.append(request.model_copy(update={"quotes": quotes}))
    return usable, reasons


def _is_said(text: str, quote: str) -> bool:
    return holds(text, quote) and is_telling(text, quote)


def _look(services: Services, asked: _Request, removed: _Removed, room: Room) -> _Texts:
    """The texts that may tell it, those of the batch among them."""
    search = UserSearch.of(services, room, EVERYTHING)
    request = asked.request
    view = asked.view
    named = set(request.told_by)
    with room.database.read_transaction(EVERYTHING) as connection:
        told = record_queries.records_by_number(connection, named)
        telling = set(_sources(connection, named))
    known = {one.n: one for one in view.messages.values()}
    queries = [record.text for record in told.values()]
    queries.append(known[request.message].message.text[:QUERY_CHARS])
    near = set(named)
    found = set[int]()
    for query in queries:
        hits, [(_, ranked)] = search_different(search, query, PER_QUERY, past=True)
        found |= {hit.position for hit in hits}
        near |= set(ranked.best_numbers()[:PER_QUERY])
    with room.database.read_transaction(EVERYTHING) as connection:
        repeated = _repeating(connection, removed)
        telling |= repeated.messages
        telling |= set(_around(connection, telling))
        near |= repeated.records
        near |= set(_made_of(connection, telling))
        found |= telling
        whole = message_queries.messages_by_number(connection, found)
        records_near = record_queries.records_by_number(connection, near)
    others = {n: ShownMessage(n, one, is_new=False) for n, one in whole.items()}
    return _Texts({**others, **known}, records_near)


class _Numbers(NamedTuple):
    messages: set[int]
    records: set[int]


def _repeating(connection: Reading, removed: _Removed) -> _Numbers:
    """Further texts in which the thing or removed words stand."""
    parts = (removed.messages, removed.records, removed.candidates)
    words = {span for part in parts for spans in part.values() for span in spans}
    found = _Numbers(set(), set())
    for span in words | removed.names:
        if len(span) < SHORTEST:
            continue
        said = messages.c.text.icontains(span, autoescape=True)
        told = records.c.text.icontains(span, autoescape=True)
        query = select(messages.c.n).where(said, SPOKEN).limit(PER_QUERY)
        found.messages.update(connection.scalars(query))
        query = select(records.c.n).where(told).limit(PER_QUERY)
        found.records.update(connection.scalars(query))
    return found


def _sources(connection: Reading, numbers: Iterable[int]) -> Iterable[int]:
    s = record_sources.c
    query = select(s.message).where(s.record.in_(list(numbers)))
    return connection.scalars(query).all()


def _made_of(connection: Reading, numbers: Iterable[int]) -> Iterable[int]:
    s = record_sources.c
    query = select(s.record).where(s.message.in_(list(numbers)))
    return connection.scalars(query).all()


def _around(connection: Reading, numbers: Iterable[int]) -> Iterable[int]:
    """The messages before and after these ones in the same sessions."""
    m = messages.c
    wanted = {n + step for n in numbers for step in range(-BEFORE, AFTER + 1)}
    sessions = select(m.session).where(m.n.in_(list(numbers)))
    query = select(m.n).where(m.n.in_(wanted), m.session.in_(sessions), SPOKEN)
    return connection.scalars(query).all()


def _fresh(texts: _Texts, shown: _Texts) -> _Texts:
    """The texts that were not shown yet."""
    return _Texts(
        {n: one for n, one in texts.messages.items() if n not in shown.messages},
        {n: one for n, one in texts.records.items() if n not in shown.records},
    )


class _Numbered(NamedTuple):
    """The numbers of texts by their aliases."""

    messages: Mapping[str, int]
    records: Mapping[str, int]


def _question(texts: _Texts, asked: _Request) -> tuple[str, _Numbered]:
    """The texts as lines of a prompt, and what their aliases stand for."""
    view = asked.view
    request = asked.request
    aliases = {one.n: alias for alias, one in view.messages.items()}
    first = 1 + max(int(alias[1:]) for alias in view.messages)
    said = {
        aliases.get(n, f"m{first + place}"): one
        for place, (n, one) in enumerate(sorted(texts.messages.items()))
    }
    numbered = {
        f"n{first + place}": one
        for place, one in enumerate(sorted(texts.records.items()))
    }
    quotes = " ".join(as_data(quote) for quote in request.quotes)
    asking = f"{aliases[request.message]}: {quotes}"
    whole = BatchView({**view.messages, **said}, numbered, view.zone)
    lines = ["Request:", asking, "Records:", *record_lines(numbered, view.zone)]
    memories = [
        f"{place}: {as_data(one.memory.text)}"
        for place, one in enumerate(asked.candidates)
        if one is not None
    ]
    lines += ["New memories:", *(memories or ["none"]), "Messages:"]
    lines += message_lines(whole, said, _WHOLE)
    by_alias = {alias: one.n for alias, one in said.items()}
    return "\n".join(lines), _Numbered(
        by_alias, {alias: n for alias, (n, _) in numbered.items()}
    )


_WHOLE = 20_000  # characters of a message; its end and its beginning, if it is longer


def _take_words(
    answer: Removal, texts: _Texts, numbered: _Numbered, removed: _Removed
) -> None:
    """Note the words that stand in the texts they are said to stand in."""
    removed.names.update(name.strip() for name in answer.names)
    for one in answer.remove:
        words = one.words
        if one.text in numbered.messages:
            n = numbered.messages[one.text]
            if words in texts.messages[n].message.text:
                removed.messages.setdefault(n, []).append(words)
        elif one.text in numbered.records:
            n = numbered.records[one.text]
            if words in texts.records[n].text:
                removed.records.setdefault(n, []).append(words)
        elif one.text.isdecimal():
            removed.candidates.setdefault(int(one.text), []).append(words)


def _without(
    candidates: Sequence[Candidate | None], removed: Mapping[int, Sequence[str]]
) -> list[Candidate | None]:
    """The candidates without those that tell what shall be forgotten."""
    return [None if place in removed else one for place, one in enumerate(candidates)]
