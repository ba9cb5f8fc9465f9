"""What the ledger knows of facts beside their words: their state, and records by attribute."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from langmem_graph.retrieval.facts import facts_by_number
from langmem_graph.schemas import Fact, Message, Record
from langmem_graph.storage import record_queries
from langmem_graph.storage.superseded_labels import labelled_messages
from langmem_graph.storage.user_room import Room
from langmem_graph.values.content_words import content
from langmem_graph.values.matching import says

AROUND = 0.5  # weight of a word of what all is about relative to one of what is looked for; ours


@dataclass(frozen=True)
class StoredFacts:
    """The stored state of the messages and records behind some facts."""

    messages: dict[str, Message] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)
    current: set[str] = field(default_factory=set)  # ids of the records that are true now
    outdated: set[str] = field(default_factory=set)  # messages of whose records none is true
    superseded: dict[str, list[str]] = field(default_factory=dict)
    """By message: texts of records made of it that are no longer true."""

    def superseded_texts(self, messages: Sequence[str]) -> tuple[str, ...]:
        """Texts of the superseded records that were made of these messages."""
        return tuple(text for message in messages for text in self.superseded.get(message, []))

    def messages_of(self, fact: Fact) -> list[Message]:
        """The fact's messages that are stored."""
        return [self.messages[n] for n in fact.message_ids if n in self.messages]

    def is_outdated(self, fact: Fact) -> bool:
        """Whether nothing of the fact holds now."""
        if fact.record_id is None:
            return bool(self.outdated.intersection(fact.message_ids))
        return fact.record_id not in self.current


def stored_facts(room: Room, messages: Sequence[str], records: Sequence[str]) -> StoredFacts:
    """What is stored of these messages and records."""
    with room.database.read_transaction() as connection:
        numbers = record_queries.numbers_of(connection, records)
        current = record_queries.current(connection, numbers.values())
        found = record_queries.records_by_number(connection, numbers.values())
        rows = record_queries.message_numbers(connection, messages)
        by_number = labelled_messages(connection, [n for n, _, _ in rows.values()])
        outdated = record_queries.outdated(connection, by_number)
        superseded = record_queries.replaced_by_message(connection, messages)
    return StoredFacts(
        messages={message.id: message for message in by_number.values()},
        records={record.record_id: record for record in found.values()},
        current={record for record, n in numbers.items() if n in current},
        outdated={by_number[n].id for n in outdated},
        superseded=superseded,
    )


def subjects_in(room: Room, request: str) -> list[str]:
    """The subjects of records that the request names, without the user."""
    with room.database.read_transaction() as connection:
        subjects = {subject for _, subject, _ in record_queries.with_attributes(connection)}
    return sorted(one for one in subjects if one != "user" and says(request, one))


def by_attribute(room: Room, wanted: Sequence[str], about: str, k: int) -> list[list[Fact]]:
    """For each text, the `k` current records whose subject and attribute resemble it most.

    The text of a record may share neither a word nor a meaning with what is looked for, while its
    attribute resembles it ("shop", "bike shop"). Rare words among the user's attributes count more,
    words of what all of it is `about` count less.
    """
    with room.database.read_transaction() as connection:
        named = record_queries.with_attributes(connection)
    attributes = [(n, content(name.replace("_", " ")), content(whose)) for n, whose, name in named]
    seen = Counter(word for _, name, subject in attributes for word in name | subject)
    weight = {word: math.log(1 + len(attributes) / count) for word, count in seen.items()}
    around, found = content(about), []
    for words in map(content, wanted):
        scores = {
            n: _total(name & words, weight)
            + AROUND * _total((name | subject) & (around - words), weight)
            for n, name, subject in attributes
        }
        best = sorted((n for n in scores if scores[n]), key=lambda n: (-scores[n], -n))
        found.append(facts_by_number(room, best[:k]))
    return found


def _total(words: frozenset[str], weight: dict[str, float]) -> float:
    return sum(weight[word] for word in words)
