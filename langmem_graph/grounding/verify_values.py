"""The step `verify`: one check in code of every single value (Mem2ActBench 3.3).

A value is sent where its quotes stand in what the user said, and it either stands in
them (`copied`) or is of a kind that the model may read from them (`read`) and is not
refuted by code. What only others than the user said is offered.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache, cached_property
from typing import Any

from langmem_graph.grounding.evidence_sources import REQUEST, Citation, Evidence, Source
from langmem_graph.grounding.schema_check import bounded_checks, is_too_large, problem
from langmem_graph.grounding.state import (
    SENT,
    Dependencies,
    FilledValue,
    GroundingState,
    Kind,
    Policy,
    ReadMode,
)
from langmem_graph.grounding.tool_schema import (
    Leaf,
    Slot,
    converted,
    leaves,
    read_arguments,
)
from langmem_graph.grounding.value_kinds import (
    copied,
    is_called,
    is_moment,
    is_readable,
    is_refuted,
    whole_numbers_in,
)
from langmem_graph.llm.answer_schemas import Gap, ToolFill
from langmem_graph.runtime import StepRun
from langmem_graph.threads import in_thread
from langmem_graph.values.matching import quoted_in, said_of

MOST_READ = 1_000_000
"""Characters of the texts in which all quotes are looked for."""
MOST_CITED, MOST_VALUES = 8, 500  # quotes of one value, and values of one call
MOST_QUOTED = 50_000  # characters of the quotes of all values
MOST_AROUND = 2_000_000  # characters of the texts in which these quotes stand or stood
MOST_PARTS = 100  # of a path, by which words are cited
_SHORTEST = 4  # of a text that the user takes up, or that is found without its quote
_READING = "is the model's reading of “{}”"


async def verify(
    deps: Dependencies, state: GroundingState, run: StepRun
) -> GroundingState:
    """Check every value that the model proposed."""
    proposal = state["proposal"]
    if proposal is None:
        return {"filled": [], "next_step": "decide"}
    tool = state["tool"]
    check = ValueCheck(
        citations=await in_thread(_citations, proposal, state["evidence"]),
        evidence=state["evidence"],
        tool=tool.name,
        may_choose=frozenset(state["model_may_choose"]),
        policy=state["policy"],
        read=state["read"],
    )
    arguments = read_arguments(proposal.arguments) or {}
    # in a thread: a call may have hundreds of values
    filled = await in_thread(_filled, check, arguments, tool.schema)
    if filled is None:
        run.warnings.append("the model's arguments are too large to be checked")
        filled = []
    named = {value.path for value in filled}
    missing = [path_of(gap.path) for gap in proposal.missing]
    rivals = [check.conflict(path) for path in missing if path not in named]
    filled = [*filled, *(rival for rival in rivals if rival)]
    is_wanted = not state.get("asked_again") and wanted_gaps(proposal, filled)
    return {"filled": filled, "next_step": "look_again" if is_wanted else "decide"}


def wanted_gaps(proposal: ToolFill, filled: Sequence[FilledValue]) -> list[Gap]:
    """What is missing and can be searched for a second time."""
    sent = {value.path for value in filled if value.how in SENT}
    return [
        gap for gap in proposal.missing if gap.said and path_of(gap.path) not in sent
    ]


def _filled(
    check: "ValueCheck", arguments: dict[str, Any], schema: Mapping[str, Any]
) -> list[FilledValue] | None:
    """The values, each as it may be sent or why it is not; None for too many."""
    if is_too_large(arguments, schema):
        return None
    with bounded_checks():
        proposed = list(leaves(arguments, schema))
        if check.takes_long(proposed):
            return None
        return [check.filled(leaf) for leaf in proposed]


def _citations(
    proposal: ToolFill, evidence: Evidence
) -> dict[tuple[str, ...], list[Citation]]:
    """What the model cites for each path, as far as the quotes stand in their
    sources.
    """
    found: dict[tuple[str, ...], list[Citation]] = defaultdict(list)
    sizes = {
        source.alias: sum(map(len, source.quotable)) for source in evidence.sources
    }
    stands = cache(evidence.citation)
    read = 0
    for path, fact, quote in dict.fromkeys(
        (path_of(taken.path), taken.fact, taken.quote) for taken in proposal.sources
    ):
        read += sizes.get(fact, 0)
        if read > MOST_READ:
            break
        cited = found[path]
        citation = stands(fact, quote) if len(cited) < MOST_CITED else None
        cited += [citation] if citation else []
    return found


def path_of(written: str) -> tuple[str, ...]:
    """`lines[0].amount` and `$.lines.0.amount` are the path `lines.0.amount`."""
    plain = re.sub(r"\[(\d+)\]", r".\1", written.strip().removeprefix("$."))
    return tuple(plain.removeprefix("arguments.").split("."))


@dataclass(frozen=True)
class ValueCheck:
    """The check of the values of one call."""

    citations: Mapping[tuple[str, ...], Sequence[Citation]]
    evidence: Evidence
    tool: str
    may_choose: frozenset[str]
    policy: Policy
    read: Mapping[str, ReadMode]
    """What becomes of values that the model has read, by tool or slot; of others by
    the empty name.
    """

    def takes_long(self, proposed: Sequence[Leaf]) -> bool:
        """Whether values are too many, or their quotes or texts too long, to check."""
        if len(proposed) > MOST_VALUES:
            return True
        sources = self.evidence.sources
        others = sum(len(text) for _, text in self._of_others)
        trusted = sum(len(text) for source in sources for text in source.trusted)
        request = sum(len(source.text) for source in self.evidence.named([REQUEST]))
        quoted = around = 0
        for leaf in proposed:
            cited = self._cited(leaf.slot.path)
            quoted += sum(len(citation.words) for citation in cited)
            texts = sum(len(citation.text) for citation in cited)
            around += texts if cited else request
            if any(not citation.is_trusted for citation in cited):
                around += trusted
            # each value is also looked for in what its sources said before, and in
            # what others say
            former = [text for one in cited for text in one.source.superseded]
            around += sum(map(len, former)) + others
        return quoted > MOST_QUOTED or around > MOST_AROUND

    def filled(self, leaf: Leaf) -> FilledValue:
        """The value as it may be sent or offered, or why it is not."""
        slot = leaf.slot
        cited = self._cited(slot.path)
        value = converted(leaf.value, slot)
        if _is_given(value, slot, cited):
            return FilledValue(slot.path, "default", value)
        wrong = problem(value, slot.schema)
        if wrong or isinstance(value, dict | list):
            reason = f"does not fit the schema: {wrong or 'it is no single value'}"
            return FilledValue(slot.path, "refused", reason=reason)
        current = [one for one in cited if not _is_outdated(one, value)]
        trusted = [one for one in current if one.is_trusted]
        said = self._said(leaf, value, trusted)
        if said is None and trusted != current:
            said = self._said(leaf, value, current)
        if said is not None and said.how != "refused":
            return said
        if self._may_be_chosen(slot):
            return self._chosen(slot, value, current)
        reason = self._reason(value, cited, current)
        return said or FilledValue(slot.path, "refused", reason=reason)

    def _said(
        self, leaf: Leaf, value: Any, cited: Sequence[Citation]
    ) -> FilledValue | None:
        """The value as these words say it; None where they do not."""
        slot = leaf.slot
        quotes = cited or self._in_request(value)
        words = [citation.words for citation in quotes]
        if not words or not _have_names(words, leaf.free):
            return None
        # 12:30 stands in "12:30 am", and is another time: moments are always read
        is_text = isinstance(value, str) and not is_moment(value)
        if is_text and value not in slot.choices:
            stands = copied(value, words)
            if stands is not None:
                fits = problem(stands, slot.schema) is None
                text = stands if fits else value
                return self._accepted(slot, "copied", text, quotes)
        is_read = is_readable(value, slot) or is_called(value, words)
        if is_read and not is_refuted(value, words):
            return self._read(slot, value, quotes)
        return None

    def _in_request(self, value: Any) -> list[Citation]:
        """A text that stands in the request needs no quote."""
        if not isinstance(value, str) or len(value) < _SHORTEST:
            return []
        found = self.evidence.citation(REQUEST, value)
        return [found] if found else []

    def conflict(self, path: tuple[str, ...]) -> FilledValue | None:
        """A value that sources disagree about: the model names several for what is
        missing.
        """
        cited = [one for one in self._cited(path) if not _is_outdated(one, one.words)]
        if len({one.source.alias for one in cited}) < 2:
            return None
        return _citing(FilledValue(path, "conflict", reason="sources disagree"), cited)

    def _cited(self, path: tuple[str, ...]) -> list[Citation]:
        """What is cited for a value; words cited for a whole object count for its
        parts.
        """
        # models do not escape the dots of names
        written = tuple(".".join(path).split(".", MOST_PARTS)[:MOST_PARTS])
        for length in range(len(written), 0, -1):
            if found := self.citations.get(written[:length]):
                return list(found)
        return []

    def _read(self, slot: Slot, value: Any, quotes: Sequence[Citation]) -> FilledValue:
        """A value that the model has read from these words."""
        filled = self._accepted(slot, "read", value, quotes)
        if filled.how == "offered":
            return filled
        if source := self._said_by_others(value, slot, quotes):
            return replace(filled, how="offered", origin=source.origin)
        mode = self._mode(slot)
        if mode == "ask":
            return replace(filled, how="offered")
        if mode == "omit":
            return replace(filled, how="refused", reason=_READING.format(filled.text))
        return filled

    def _mode(self, slot: Slot) -> ReadMode:
        names = _names_of(slot, self.tool)
        return next(
            (self.read[n] for n in (*names, self.tool, "") if n in self.read), "send"
        )

    def _said_by_others(
        self, value: Any, slot: Slot, quotes: Sequence[Citation]
    ) -> Source | None:
        """A source of others' words that has the value, which its quotes have not."""
        if isinstance(value, bool):  # texts that mean a yes or no seldom have the word
            return None
        names = slot.names_of(value) if isinstance(value, str) else []
        if any(_tells(citation.words, value, names) for citation in quotes):
            return None
        return next(
            (one for one, text in self._of_others if _tells(text, value, names)), None
        )

    @cached_property
    def _of_others(self) -> list[tuple[Source, str]]:
        """The texts that somebody else than the user has written."""
        foreign = [one for one in self.evidence.sources if one.origin != "user"]
        return [
            (one, text)
            for one in foreign
            for text in dict.fromkeys((one.text, one.said))
            if text and text not in one.trusted
        ]

    def _accepted(
        self, slot: Slot, kind: Kind, value: Any, quotes: Sequence[Citation]
    ) -> FilledValue:
        """The value as it is sent; as offered where it rests on what others said."""
        filled = FilledValue(slot.path, kind, value, kind=kind)
        foreign = [citation for citation in quotes if not citation.is_trusted]
        if not foreign:
            return _citing(filled, quotes)
        newest = max(citation.source.at for citation in foreign)
        if taken_up := self._taken_up(value, newest):
            return _citing(filled, [taken_up])
        offered = replace(filled, how="offered", origin=foreign[0].source.origin)
        return _citing(offered, quotes)

    def _taken_up(self, value: Any, since: str) -> Citation | None:
        """Where the user says the same words later: then they are the user's."""
        if not isinstance(value, str) or len(value) < _SHORTEST:
            return None
        for source in self.evidence.sources:
            if source.at < since or not source.trusted:
                continue
            found = self.evidence.citation(source.alias, value)
            if found and found.is_trusted and not _is_outdated(found, value):
                return found
        return None

    def _may_be_chosen(self, slot: Slot) -> bool:
        return not self.may_choose.isdisjoint(_names_of(slot, self.tool))

    def _chosen(
        self, slot: Slot, value: Any, current: Sequence[Citation]
    ) -> FilledValue:
        chosen = _citing(FilledValue(slot.path, "chosen", value), current)
        reason = f"is the model's choice: {value!r}"
        is_sent = self.policy == "flag"
        return chosen if is_sent else replace(chosen, how="refused", reason=reason)

    def _reason(
        self, value: Any, cited: Sequence[Citation], current: Sequence[Citation]
    ) -> str:
        if not cited:
            return "does not stand in a source"
        if not current:
            return "no longer true"
        said = " … ".join(citation.words for citation in current)
        return f"{value!r} is not what was said: “{said}”"[:300]


def _tells(text: str, value: Any, names: Sequence[str]) -> bool:
    """Whether a text has a value, or one of its names."""
    if isinstance(value, int | float):
        is_there = Decimal(str(value)) in whole_numbers_in(text)
        return is_there or bool(said_of(text, [str(value)]))
    return bool(said_of(text, names))


def _have_names(words: Sequence[str], names: Sequence[str]) -> bool:
    """Whether names that the schema does not give stand in the quotes, too."""
    return all(any(quoted_in(name, text) for text in words) for name in names)


def _is_given(value: Any, slot: Slot, cited: Sequence[Citation]) -> bool:
    """Whether the schema itself gives a value: the only one, or its default."""
    is_only = isinstance(value, str) and slot.choices == (value,)
    is_default = slot.has_default and not cited and value == slot.schema["default"]
    return is_only or is_default


def _names_of(slot: Slot, tool: str) -> tuple[str, ...]:
    """The names under which an application may mean a slot: with the tool's before it,
    and without the numbers of a list's items.
    """
    plain = ".".join(part for part in slot.path if not part.isdigit())
    return (f"{tool}.{slot.name}", f"{tool}.{plain}", slot.name, plain)


def _is_outdated(citation: Citation, value: Any) -> bool:
    source = citation.source
    return source.outdated or any(
        map(source.has_superseded, (citation.words, str(value)))
    )


def _citing(filled: FilledValue, cited: Sequence[Citation]) -> FilledValue:
    aliases = tuple(dict.fromkeys(one.source.alias for one in cited))
    separator, quotes = (
        (" / ", "text") if filled.how == "conflict" else (" … ", "words")
    )
    text = separator.join(dict.fromkeys(getattr(one, quotes) for one in cited))
    return replace(filled, sources=aliases, text=text)
