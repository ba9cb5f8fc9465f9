"""Retrieval by attribute: records whose attribute resembles a parameter ("shop", "bike shop").

A record's text may share neither a word nor a meaning with the parameter's name; its subject and
attribute were named when it was written. Rare words among the user's attributes count more.
"""

import math
from collections import Counter
from collections.abc import Sequence

from langmem_graph.grounding.slots import Slot, in_words
from langmem_graph.grounding.tool_spec import ToolSpec
from langmem_graph.models import Fact
from langmem_graph.recall.facts import facts_by_number
from langmem_graph.store import record_lookups
from langmem_graph.store.room import Room
from langmem_graph.write.words import content

AROUND = 0.5
"""Weight of a word of the request or tool relative to one of the parameter; ours."""


def by_attribute(
    room: Room, slots: Sequence[Slot], tool: ToolSpec, request: str, k: int
) -> list[list[Fact]]:
    """For each slot, the `k` current records whose subject and attribute resemble it most."""
    with room.database.reading() as connection:
        named = record_lookups.with_attributes(connection)
    attributes = [(n, content(in_words(name)), content(subject)) for n, subject, name in named]
    seen = Counter(word for _, name, subject in attributes for word in name | subject)
    weight = {word: math.log(1 + len(attributes) / count) for word, count in seen.items()}
    about = content(f"{in_words(tool.name)} {tool.description} {request}")
    found = []
    for slot in slots:
        own = content(f"{' '.join(map(in_words, slot.path))} {slot.description}")
        scores = {
            n: _total(name & own, weight)
            + AROUND * _total((name | subject) & (about - own), weight)
            for n, name, subject in attributes
        }
        best = sorted((n for n in scores if scores[n]), key=lambda n: (-scores[n], -n))
        found.append(facts_by_number(room, best[:k]))
    return found


def _total(words: frozenset[str], weight: dict[str, float]) -> float:
    return sum(weight[word] for word in words)
