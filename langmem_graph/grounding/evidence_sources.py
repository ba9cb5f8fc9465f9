"""Sources of values: the request, messages, and records with the messages they were
made of.

Records alone lose exact values (Mem2ActBench 3.5), so the prompt has both. Values are
quoted from messages and the request, never from a record's text, which a model wrote;
unasked only from those of trusted origins.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from langmem_graph.messages import is_bare_call
from langmem_graph.results import Fact
from langmem_graph.retrieval.facts import still_says
from langmem_graph.retrieval.joined_search import each_room
from langmem_graph.retrieval.quoted_context import of_room
from langmem_graph.retrieval.search_common import RoomSearch, SearchNotes, UserSearch
from langmem_graph.rooms import shared_name
from langmem_graph.runtime import StepRun
from langmem_graph.schemas import Label, Message, Origin, Record
from langmem_graph.storage import record_queries
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.superseded_labels import labelled_messages
from langmem_graph.storage.user_room import Room
from langmem_graph.trust import weakest
from langmem_graph.values.matching import quoted_in, whole_in

T = TypeVar("T")
REQUEST = "f0"  # the alias of the request among the sources
MOST_FACTS = 120  # facts in one prompt; ours
LONGEST = 1_000  # characters of a source


@dataclass(frozen=True)
class Source:
    """A text that may state a value."""

    alias: str
    text: str
    fact: str = ""  # id of the fact
    speaker: str = ""
    said: str = ""  # the newest message that a record was made of
    at: str = ""
    # whose words it holds; of a record, the least trusted origin
    origin: Origin = "user"
    trusted: tuple[str, ...] = ()  # texts from which values are taken unasked
    record_ids: tuple[str, ...] = ()
    message_ids: tuple[str, ...] = ()
    confirmation: str = ""
    outdated: bool = False  # nothing of it holds now, so no value is taken from it
    labels: tuple[Label, ...] = ()
    superseded: tuple[str, ...] = ()  # texts of the same messages' records, now untrue
    room: str | None = None  # the shared room that it is of
    author: str | None = None  # who wrote it there
    place: str = ""  # both in words

    @property
    def told(self) -> list[str]:
        """The texts that somebody wrote; a record's own text is a model's."""
        return [self.said] if self.record_ids else [self.text]

    @property
    def quotable(self) -> list[str]:
        """The texts from which it may be quoted, the trusted ones first."""
        return list(dict.fromkeys([*self.trusted, *self.told]))

    def has_superseded(self, raw: str) -> bool:
        """True when the words stand in a superseded text and not in the current one."""

        def stands_in(text: str) -> bool:
            return whole_in(raw, text, any_case=True) is not None

        return not stands_in(self.text) and any(map(stands_in, self.superseded))


@dataclass(frozen=True)
class Citation:
    """Words of a source that a value is said to be taken from, as they stand there."""

    source: Source
    words: str
    text: str  # the whole text in which they stand

    @property
    def is_trusted(self) -> bool:
        """True where values are taken from it unasked."""
        return self.text in self.source.trusted


@dataclass(frozen=True)
class Evidence:
    """Everything that a call may be filled from."""

    sources: Sequence[Source]

    @cached_property
    def _by_alias(self) -> dict[str, Source]:
        return {source.alias: source for source in self.sources}

    def named(self, aliases: Iterable[str]) -> list[Source]:
        """The sources with these aliases; unknown aliases are ignored."""
        known = self._by_alias
        return [known[alias] for alias in dict.fromkeys(aliases) if alias in known]

    def citation(self, alias: str, quote: str) -> Citation | None:
        """The quote in that source, in a trusted text of it where it stands there; else
        None.
        """
        for source in self.named([alias]):
            for text in source.quotable:
                if (words := quoted_in(quote, text)) is not None:
                    return Citation(source, words, text)
        return None


@dataclass(frozen=True)
class StoredFacts:
    """The stored state of the messages and records behind some facts."""

    messages: dict[str, Message] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)
    # ids of the records that are true now
    current: set[str] = field(default_factory=set)
    # messages of whose records none is true
    outdated: set[str] = field(default_factory=set)
    superseded: dict[str, list[str]] = field(default_factory=dict)
    """By message: texts of records made of it that are no longer true."""

    def superseded_texts(self, messages: Sequence[str]) -> tuple[str, ...]:
        """Texts of the superseded records that were made of these messages."""
        return tuple(
            text for message in messages for text in self.superseded.get(message, [])
        )

    def messages_of(self, fact: Fact) -> list[Message]:
        """The fact's messages that are stored."""
        return [self.messages[n] for n in fact.message_ids if n in self.messages]

    def is_outdated(self, fact: Fact) -> bool:
        """Whether nothing of the fact holds now."""
        if fact.record_id is None:
            return bool(self.outdated.intersection(fact.message_ids))
        return fact.record_id not in self.current


def stored_facts(
    connection: Reading, messages: Sequence[str], records: Sequence[str]
) -> StoredFacts:
    """What is stored of these messages and records."""
    numbers = record_queries.numbers_of(connection, records)
    current = record_queries.current(connection, numbers.values())
    found = record_queries.records_by_number(connection, numbers.values())
    rows = record_queries.message_numbers(connection, messages)
    by_number = labelled_messages(connection, [n for n, _, _ in rows.values()])
    outdated = record_queries.outdated(connection, by_number)
    return StoredFacts(
        messages={message.id: message for message in by_number.values()},
        records={record.record_id: record for record in found.values()},
        current={record for record, n in numbers.items() if n in current},
        outdated={by_number[n].id for n in outdated},
        superseded=record_queries.replaced_by_message(connection, messages),
    )


async def read_sources(
    services: Services, run: StepRun, facts: Sequence[Fact], trust: Collection[Origin]
) -> list[Source]:
    """The first facts in order of time, each record with its newest message.

    A tool call that an assistant made is left out: its guess would come back as a
    memory. What two facts say in the same words is shown once.
    """
    named = [
        (f.room, f.message_ids, [f.record_id] if f.record_id else []) for f in facts
    ]
    stored = await _stored(services, run, named)
    known = [(fact, stored[fact.room]) for fact in facts if fact.room in stored]
    usable = [(f, own) for f, own in known if f.record_id or not _is_guess(f, own)]
    found = _distinct([_source(f, own, trust, run.user) for f, own in usable])[
        :MOST_FACTS
    ]
    by_time = sorted(found, key=lambda source: source.at)
    return [replace(source, alias=f"f{n}") for n, source in enumerate(by_time, 1)]


def _is_guess(fact: Fact, stored: StoredFacts) -> bool:
    return any(map(is_bare_call, stored.messages_of(fact)))


def _distinct(sources: Sequence[Source]) -> list[Source]:
    """Each text once: of equal ones a trusted and newer one, and no message shown with
    a record.
    """
    with_record = {source.said for source in sources if source.said}
    kept: dict[str, Source] = {}
    for source in sources:
        same = " ".join(source.text.casefold().split())
        other = kept.get(same)
        if source.text in with_record and not source.record_ids:
            continue
        if other is None or _rank(source) > _rank(other):
            kept[same] = source  # keeps the place of the first
    return list(kept.values())


def _rank(source: Source) -> tuple[bool, bool, bool, str]:
    return not source.outdated, bool(source.trusted), bool(source.record_ids), source.at


async def current_sources(
    services: Services, run: StepRun, sources: Sequence[Source]
) -> dict[str, Source | None]:
    """The sources as stored now, by alias; None for a source that was forgotten,
    changed or superseded.
    """
    stored = await _stored(
        services, run, [(s.room, s.message_ids, s.record_ids) for s in sources]
    )
    none = StoredFacts()
    return {
        source.alias: _current(source, stored.get(source.room, none))
        for source in sources
    }


async def _stored(
    services: Services,
    run: StepRun,
    named: Sequence[tuple[str | None, Sequence[str], Sequence[str]]],
) -> dict[str | None, StoredFacts]:
    """What each room has of the messages and records that are named with it."""

    def read(one: RoomSearch, connection: Reading) -> StoredFacts:
        own = [(m, r) for name, m, r in named if name == shared_name(one.key)]
        messages = [message for several, _ in own for message in several]
        records = [record for _, several in own for record in several]
        return stored_facts(connection, messages, records)

    return dict(await in_each(services, run, read))


async def in_each(
    services: Services, run: StepRun, work: Callable[[RoomSearch, Reading], T]
) -> list[tuple[str | None, T]]:
    """The work in the user's room (None) and in each shared one, without those where it
    fails.
    """
    notes = SearchNotes(warnings=run.warnings)

    def inside(rooms: list[Room]) -> list[tuple[str | None, T]]:
        searches = UserSearch.over(services, run.view, rooms, notes).rooms
        done = each_room(searches, work)
        return [(shared_name(one.key), outcome) for one, outcome in done]

    return await services.in_rooms(run.view, inside, notes.warnings, notes.warnings)


def _current(source: Source, stored: StoredFacts) -> Source | None:
    available = stored.current | stored.messages.keys()
    if not {*source.message_ids, *source.record_ids} <= available:
        return None
    if not _still_says(source, stored):
        return None
    return replace(source, superseded=stored.superseded_texts(source.message_ids))


def _still_says(source: Source, stored: StoredFacts) -> bool:
    """Whether all that was shown of a source stands in what its ids name now."""
    messages = [stored.messages[message].text for message in source.message_ids]
    records = [stored.records[record].text for record in source.record_ids]
    if not all(still_says(source.text, text) for text in records or messages):
        return False
    if not messages:  # the request, or a record that was made of none
        return True
    shown = {text for text in (source.said, *source.trusted) if text}
    return shown <= {text[:LONGEST] for text in messages}


def _origin(message: Message, user: str) -> Origin:
    """Whose words a message holds; what others wrote in a shared room is text from
    elsewhere.
    """
    is_own = message.room is None or message.author == user
    return message.origin if is_own else weakest([message.origin, "import"])


def _source(
    fact: Fact, stored: StoredFacts, trust: Collection[Origin], user: str
) -> Source:
    messages = stored.messages_of(fact)
    origins = {one.id: _origin(one, user) for one in messages}
    foreign = [origin for origin in origins.values() if origin not in trust]
    own = [one for one in messages if origins[one.id] in trust]
    trusted = messages if own and _is_taken_up(fact, stored, origins, trust) else own
    return Source(
        alias="",
        text=fact.text[:LONGEST],
        fact=fact.id,
        speaker=fact.speaker,
        said=messages[-1].text[:LONGEST] if messages and fact.record_id else "",
        at=fact.at.isoformat() if fact.at else "",
        origin=foreign[0] if foreign and trusted != messages else "user",
        trusted=tuple(one.text[:LONGEST] for one in trusted),
        record_ids=(fact.record_id,) if fact.record_id else (),
        message_ids=tuple(fact.message_ids),
        confirmation=fact.confirmation,
        outdated=stored.is_outdated(fact),
        labels=_labels(fact, messages[-1:]),
        superseded=stored.superseded_texts(fact.message_ids),
        room=fact.room,
        author=fact.author,
        place=of_room(fact, fact.speaker),
    )


def _is_taken_up(
    fact: Fact,
    stored: StoredFacts,
    origins: Mapping[str, Origin],
    trust: Collection[Origin],
) -> bool:
    """Whether the user has taken up what somebody else said: a settled record that
    others' words alone carry, and a trusted message supports.
    """
    record = stored.records.get(fact.record_id or "")
    if record is None or record.confirmation != "confirmed":
        return False
    supporting = set(record.supporting_ids)
    carrying = [origin for name, origin in origins.items() if name not in supporting]
    return all(origin not in trust for origin in carrying)


def _labels(fact: Fact, said: Sequence[Message]) -> tuple[Label, ...]:
    """The fact's own labels, and those of other statements of the message that is shown
    with it.
    """
    own = fact.labels if fact.record_id else []
    others = [label for message in said for label in message.labels]
    return tuple({label.record_id: label for label in [*others, *own]}.values())
