"""Sources of slot values: the request, records, and the messages that records were made of.

Records alone lose exact values that a tool needs (Mem2ActBench 3.5), so the prompt has both.
Candidate values are recognised by their form; all other values are quoted from a source.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from langmem_graph.grounding.tool_schema import Slot
from langmem_graph.messages import is_bare_call
from langmem_graph.runtime import StepRun
from langmem_graph.schemas import Fact, Message
from langmem_graph.storage import message_queries, record_queries
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.user_room import Room
from langmem_graph.values.matching import is_part, says
from langmem_graph.values.verbatim import find_values, raws, tokens

REQUEST = "f0"
"""The alias of the request among the sources."""
LONGEST = 1_000
"""Characters of a source."""


@dataclass(frozen=True)
class Source:
    """A text that may state a value."""

    alias: str
    text: str
    fact: str = ""
    """Id of the fact."""
    speaker: str = ""
    said: str = ""
    """The newest message that a record was made of."""
    at: str = ""
    record_ids: tuple[str, ...] = ()
    message_ids: tuple[str, ...] = ()
    subject: str | None = None
    attribute: str | None = None
    confirmation: str = ""
    outdated: bool = False
    superseded: tuple[str, ...] = ()
    """Texts of records that were made of the same messages and are no longer true."""

    def has_superseded(self, raw: str) -> bool:
        """True when the words stand in a superseded text and not in the current one."""
        if whole_in(raw, self.text, re.IGNORECASE) is not None:
            return False
        return any(whole_in(raw, text, re.IGNORECASE) is not None for text in self.superseded)

    @property
    def texts(self) -> tuple[str, ...]:
        """The message, if there is one, then the record made of it."""
        return tuple(filter(None, (self.said, self.text)))


@dataclass(frozen=True)
class ValueCandidate:
    """A value recognised in a source, spelled as in the source."""

    alias: str
    raw: str
    kind: str
    source: str


@dataclass(frozen=True)
class Evidence:
    """Everything that the slots of one call may be filled from."""

    sources: Sequence[Source]
    candidates: Sequence[ValueCandidate]

    def named(self, aliases: Iterable[str]) -> list[Source]:
        """The sources with these aliases; unknown aliases are ignored."""
        known = {source.alias: source for source in self.sources}
        return [known[alias] for alias in dict.fromkeys(aliases) if alias in known]


async def read_sources(
    services: Services, run: StepRun, request: str, facts: Sequence[Fact], most: int
) -> list[Source]:
    """The request and the first facts, each record with its newest message.

    A tool call that an assistant made is left out: its guess would come back as a memory.
    """
    ids = [message_id for fact in facts for message_id in fact.message_ids]
    records = [fact.record_id for fact in facts if fact.record_id]
    stored = await services.in_known_room(
        run.user, lambda room: _stored(room, ids, records), _Stored({}, set(), {})
    )
    first = Source(alias=REQUEST, text=request)
    usable = [fact for fact in facts if not _is_bare_call(fact, stored)][:most]
    return [first, *(_source(n, fact, stored) for n, fact in enumerate(usable, 1))]


def _is_bare_call(fact: Fact, stored: "_Stored") -> bool:
    return fact.record_id is None and any(map(is_bare_call, stored.messages_of(fact)))


async def current_sources(
    services: Services, run: StepRun, sources: Sequence[Source]
) -> dict[str, Source | None]:
    """The sources as stored now, by alias; None for a source that was forgotten or superseded."""
    ids = [message_id for source in sources for message_id in source.message_ids]
    records = [record_id for source in sources for record_id in source.record_ids]
    stored = _Stored({}, set(), {})
    if ids or records:
        stored = await services.in_known_room(
            run.user, lambda room: _stored(room, ids, records), stored
        )
    return {source.alias: _current(source, stored) for source in sources}


def _current(source: Source, stored: "_Stored") -> Source | None:
    available = stored.current | stored.messages.keys()
    if not {*source.message_ids, *source.record_ids} <= available:
        return None
    return replace(source, superseded=stored.superseded_texts(source.message_ids))


@dataclass(frozen=True)
class _Stored:
    """The stored state of some messages and records."""

    messages: dict[str, Message]
    current: set[str]
    """Ids of the records that are true now."""
    superseded: dict[str, list[str]]
    """By message: texts of records made of it that are no longer true."""

    def superseded_texts(self, messages: Sequence[str]) -> tuple[str, ...]:
        """Texts of the superseded records that were made of these messages."""
        return tuple(text for message in messages for text in self.superseded.get(message, []))

    def messages_of(self, fact: Fact) -> list[Message]:
        """The fact's messages that are stored."""
        return [self.messages[n] for n in fact.message_ids if n in self.messages]


def _stored(room: Room, messages: Sequence[str], records: Sequence[str]) -> _Stored:
    with room.database.read_transaction() as connection:
        numbers = record_queries.numbers_of(connection, records)
        current = record_queries.current(connection, numbers.values())
        by_id = message_queries.messages_by_id(connection, messages)
        superseded = record_queries.replaced_by_message(connection, messages)
    return _Stored(by_id, {record for record, n in numbers.items() if n in current}, superseded)


def _source(number: int, fact: Fact, stored: _Stored) -> Source:
    messages = stored.messages_of(fact)
    return Source(
        alias=f"f{number}",
        text=fact.text[:LONGEST],
        fact=fact.id,
        speaker=fact.speaker,
        said=messages[-1].text[:LONGEST] if messages and fact.record_id else "",
        at=fact.at.isoformat() if fact.at else "",
        record_ids=(fact.record_id,) if fact.record_id else (),
        message_ids=tuple(fact.message_ids),
        subject=fact.subject,
        attribute=fact.attribute,
        confirmation=fact.confirmation,
        outdated=fact.outdated
        or (fact.record_id is not None and fact.record_id not in stored.current),
        superseded=stored.superseded_texts(fact.message_ids),
    )


def candidates_in(sources: Sequence[Source], slots: Sequence[Slot]) -> list[ValueCandidate]:
    """Values of a known form (dates, prices, codes, links …) and allowed choices in the sources."""
    choices = [choice for slot in slots for choice in slot.choices if isinstance(choice, str)]
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for source in sources:
        for text in source.texts:
            for raw, kind in dict.fromkeys((value.raw, value.type) for value in find_values(text)):
                if (raw, kind) not in found and _stands_alone(raw, text):
                    found[raw, kind] = (kind, source.alias)
            for choice in choices:
                if says(text, choice):
                    found.setdefault((choice, "choice"), ("choice", source.alias))
    return [
        ValueCandidate(alias=f"v{place}", raw=raw, kind=kind, source=source)
        for place, ((raw, _), (kind, source)) in enumerate(found.items(), 1)
    ]


def quoted_in(words: str, source: Source) -> str | None:
    """The words as they stand in the source, byte for byte; None where they do not."""
    spelled = dict.fromkeys(unicodedata.normalize(form, words) for form in ("NFC", "NFD"))
    for case in (re.NOFLAG, re.IGNORECASE):
        for text in source.texts:
            for spelling in (words, *spelled):
                if (found := whole_in(spelling, text, case)) is not None:
                    return found
    return None


def whole_in(words: str, text: str, case: re.RegexFlag = re.NOFLAG) -> str | None:
    """The words as they stand in the text; None inside longer words or a longer number.

    The white space between the words may differ, since a line may end there.
    """
    pattern = re.compile(r"\s+".join(map(re.escape, words.split())), case)
    if not pattern.pattern:
        return None
    for found in tokens(pattern, text):
        if not is_part(text, *found.span()):
            return found.group()
    plain = words.strip()
    in_range = any(map(str.isdigit, plain)) and plain in raws(text)  # the 7 of "7-10"
    return plain if in_range and _stands_alone(plain, text) else None


def _stands_alone(raw: str, text: str) -> bool:
    """True where the value occurs at least once outside a longer number."""
    places = tokens(re.compile(re.escape(raw)), text, ranges=True)
    return any(not is_part(text, *found.span()) for found in places)
