"""The steps `select_tool` and `retrieve_slots`: a tool, and the sources for its slots.

Of several tools, the model picks one of the ten that are nearest in words and meaning
(Mem2ActBench 3.3). The request, every slot, and every slot of the user's own and of the
people named in the request are then searched for ("seat number", "my seat", "Mei
seat"), with what tools ask of everybody ("my e-mail address"), and records by
attributes. A second search, still without a model, looks for what was said later about
the best facts, and for the people whom these name.
"""

import asyncio
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from rapidfuzz import fuzz

from langmem_graph.errors import EmbeddingError
from langmem_graph.grounding.evidence_sources import (
    REQUEST,
    Evidence,
    Source,
    in_each,
    read_sources,
)
from langmem_graph.grounding.state import Dependencies, GroundingState
from langmem_graph.grounding.tool_schema import Slot, in_words, searched_slots, slots_of
from langmem_graph.llm.answer_schemas import ToolChoice
from langmem_graph.llm.structured_calls import RunUsage, load_prompt
from langmem_graph.llm.tool_specs import ToolSpec
from langmem_graph.results import Fact
from langmem_graph.retrieval.facts import facts_by_number, interleaved
from langmem_graph.retrieval.quoted_context import as_data
from langmem_graph.retrieval.ranking import best_places, reciprocal_rank_fusion
from langmem_graph.retrieval.search_common import RoomSearch
from langmem_graph.runtime import StepRun
from langmem_graph.schedule.time_phrases import MONTHS, WEEKDAYS
from langmem_graph.storage import record_queries
from langmem_graph.storage.reading import Reading
from langmem_graph.threads import in_thread
from langmem_graph.values.content_words import content
from langmem_graph.values.matching import said_of

SHOWN = 10  # tools in the prompt (Mem2ActBench)
FOR_REQUEST = 40  # facts retrieved for the request; ours
PER_SLOT = 5  # facts retrieved for one slot (Mem2ActBench)
BY_ATTRIBUTE = 3  # records retrieved for one slot by attribute; ours
MOST_SLOTS = 24  # slots that are searched for; the first ones of a larger tool
# named in the request, beside the user, whose slots are searched for; ours
MOST_OWNERS = 2
MOST_SEARCHES = 60  # searches for slots and for their entities; ours
MOST_FOLLOWED = 20  # facts about which newer ones are searched for; ours
MOST_NAMED = 8  # people in them who are searched for; ours
# weight of a word of what all is about relative to one of what is looked for; ours
AROUND = 0.5
NEWER = 3  # facts retrieved for each; ours
_LONGEST = 300  # characters of a fact that is searched for
_NAME = re.compile(r"(?<=[\w,] )[^\W\d_a-z][\w'’-]+")  # capitalised, within a sentence
LONGEST_RANKED = 4_000
"""Characters of a tool's description, and of a request, that are compared."""
OWN = (
    "my name is;I was born on;my mobile number;my e-mail address;my street, I moved to;"
    "my home address"
).split(";")
"""How people tell what most tools ask of them; what is near is among the facts."""


async def select_tool(
    deps: Dependencies, state: GroundingState, run: StepRun
) -> GroundingState:
    """Choose a tool; the best of the ranking where the model's choice cannot be
    used.
    """
    tools = state["specs"]
    usage = state["usage"].copy()
    chosen = tools[0]
    if len(tools) > 1:
        ranked = await in_thread(_ranked, deps, tools, state["query"])
        chosen = await _pick(deps, ranked[:SHOWN], state["query"], usage)
    run.emit({"event": "memory_tool", "tool": chosen.name})
    return {"tool": chosen, "usage": usage}


def _ranked(
    deps: Dependencies, tools: Sequence[ToolSpec], request: str
) -> list[ToolSpec]:
    texts = [_described(tool)[:LONGEST_RANKED] for tool in tools]
    request = request[:LONGEST_RANKED]
    embedder = deps.services.embedder
    words = np.array(
        [fuzz.token_set_ratio(request, text) for text in texts], dtype=np.float64
    )
    try:
        meaning = (embedder.embed(texts) @ embedder.embed_query(request)).astype(
            np.float64
        )
    except EmbeddingError:  # the tools are then ranked by words alone
        meaning = np.zeros(len(texts))
    scores = reciprocal_rank_fusion(
        [words, meaning], deps.services.settings.ranking.rrf_k
    )
    return [tools[place] for place in best_places(scores)]


def _described(tool: ToolSpec) -> str:
    parts = [f"{slot.name} {slot.description}" for slot in slots_of(tool)]
    return " ".join([tool.name.replace("_", " "), tool.description, *parts])


async def _pick(
    deps: Dependencies, tools: Sequence[ToolSpec], request: str, usage: RunUsage
) -> ToolSpec:
    by_alias = {f"t{place}": tool for place, tool in enumerate(tools, 1)}
    lines = [
        f"{alias}: {as_data(_described(tool)[:600])}"
        for alias, tool in by_alias.items()
    ]
    question = "\n".join(["Tools:", *lines, f"Request: {as_data(request)}"])
    choice = await deps.runner.ask(
        ToolChoice, load_prompt("select_tool"), question, usage
    )
    return by_alias.get(choice.tool, tools[0]) if choice else tools[0]


async def retrieve_slots(
    deps: Dependencies, state: GroundingState, run: StepRun
) -> GroundingState:
    """Find sources for all slots."""
    tool = state["tool"]
    slots = searched_slots(state["tool"])
    query = state["query"]
    request = Source(REQUEST, query, at=state["now"], trusted=(query,))
    warnings = list(state["warnings"])
    found = list[Source]()
    try:
        facts = await _searched(deps, run, tool, slots[:MOST_SLOTS], query)
        found = await read_sources(deps.services, run, facts, state["trust"])
    except Exception as error:  # noqa: BLE001  # the slots are then filled from the request alone
        warnings.append(run.warning("memory could not be searched", error))
    shown = [source.fact for source in found]
    run.emit({"event": "memory_slots", "slots": len(slots), "facts": shown})
    return {"evidence": Evidence([request, *found]), "warnings": warnings}


async def _searched(
    deps: Dependencies,
    run: StepRun,
    tool: ToolSpec,
    slots: Sequence[Slot],
    request: str,
) -> list[Fact]:
    """The facts found for the request, for each slot, and for the entity that it
    belongs to.
    """
    about = f"{in_words(tool.name)} {tool.description} {request}"
    wanted = [slot.about for slot in slots]

    def read(_: RoomSearch, connection: Reading) -> _InRoom:
        found = _by_attribute(connection, wanted, about, BY_ATTRIBUTE)
        return _InRoom(found, _subjects_in(connection, request))

    of_rooms = await in_each(deps.services, run, read)
    resembling = [facts for _, read in of_rooms for facts in read.resembling]
    named = [name for _, read in of_rooms for name in read.subjects]
    owners = ["my", *dict.fromkeys([*named, *_NAME.findall(request)])][
        : MOST_OWNERS + 1
    ]
    own = [f"{owner} {in_words(slot.path[-1])}" for slot in slots for owner in owners]
    queries = dict.fromkeys([*OWN, *wanted, *own][:MOST_SEARCHES])
    searches = [(request, FOR_REQUEST), *((query, PER_SLOT) for query in queries)]
    found = await _gathered(deps, run, searches)
    best = {facts[0].id: facts[0] for facts in found if facts}
    return interleaved(
        [found[0], *await followed(deps, run, best), *found[1:], *resembling]
    )


class _InRoom(NamedTuple):
    """What a room has for a call."""

    resembling: list[list[Fact]]
    subjects: list[str]


def _subjects_in(connection: Reading, request: str) -> list[str]:
    """The subjects of records that the request names, without the user."""
    named = record_queries.with_attributes(connection)
    subjects = {subject for _, subject, _ in named}
    return sorted(said_of(request[:LONGEST_RANKED], subjects - {"user"}))


def _by_attribute(
    connection: Reading, wanted: Sequence[str], about: str, k: int
) -> list[list[Fact]]:
    """For each text, the `k` current records whose subject and attribute resemble it
    most.

    The text of a record may share neither a word nor a meaning with what is looked for,
    while its attribute resembles it ("shop", "bike shop"). Rare words among the user's
    attributes count more, words of what all of it is `about` count less.
    """
    named = record_queries.with_attributes(connection)
    attributes = [
        (n, content(name.replace("_", " ")), content(whose)) for n, whose, name in named
    ]
    seen = Counter(word for _, name, subject in attributes for word in name | subject)
    weight = {
        word: math.log(1 + len(attributes) / count) for word, count in seen.items()
    }
    around = content(about)
    ranked = []
    for words in map(content, wanted):
        scores = {
            n: _total(name & words, weight)
            + AROUND * _total((name | subject) & (around - words), weight)
            for n, name, subject in attributes
        }
        best = sorted((n for n in scores if scores[n]), key=lambda n: (-scores[n], -n))
        ranked.append(best[:k])
    return [[*facts_by_number(connection, best).values()] for best in ranked]


def _total(words: frozenset[str], weight: dict[str, float]) -> float:
    return sum(weight[word] for word in words)


async def _gathered(
    deps: Dependencies, run: StepRun, searches: Sequence[tuple[str, int]]
) -> list[list[Fact]]:
    return await asyncio.gather(
        *(deps.search(query, k, "semantic", run) for query, k in searches)
    )


async def followed(
    deps: Dependencies, run: StepRun, best: Mapping[str, Fact]
) -> list[list[Fact]]:
    """What was said later about what the best facts say, and of the people whom they
    name.
    """
    first = list(best.values())[:MOST_FOLLOWED]
    named = Counter(
        name
        for fact in best.values()
        for name in dict.fromkeys(_NAME.findall(fact.text))
    )
    people = [name for name in named if name.casefold() not in (*MONTHS, *WEEKDAYS)]
    people = sorted(people, key=lambda name: -named[name])[:MOST_NAMED]
    searches = [*((fact.text[:_LONGEST], NEWER + 1) for fact in first)]
    searches += [
        (f"{name}, surname, phone number and address", NEWER) for name in people
    ]
    found = await _gathered(deps, run, searches)
    found += await asyncio.gather(
        *(deps.search(n, PER_SLOT, "entity", run) for n in people)
    )
    later = [
        [one for one in own if one.at and fact.at and one.at > fact.at][:NEWER]
        for fact, own in zip(first, found, strict=False)
    ]
    return [*later, *found[len(first) :]]
