"""The step `verify`: one check in code of every single value (Mem2ActBench 3.3).

A value is sent where the quote stands in the cited source, and the value stands in the
quote or follows from it by a derivation of code. What only others than the user said is
offered.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cache
from itertools import pairwise
from typing import Any

from langmem_graph.grounding.derivations import (
    Quoted,
    choice_derivation,
    number_derivation,
    text_derivation,
)
from langmem_graph.grounding.evidence_sources import REQUEST, Citation, Evidence
from langmem_graph.grounding.schema_check import bounded_checks, is_too_large, problem
from langmem_graph.grounding.state import (
    Dependencies,
    FilledValue,
    GroundingState,
    Policy,
)
from langmem_graph.grounding.tool_schema import (
    Leaf,
    Slot,
    converted,
    in_words,
    leaves,
    read_arguments,
)
from langmem_graph.ids_and_times import in_zone
from langmem_graph.llm.answer_schemas import ToolFill
from langmem_graph.runtime import StepRun
from langmem_graph.schedule.times import zone_of
from langmem_graph.threads import in_thread
from langmem_graph.values.matching import quoted_in, says, tokens, whole_in

_SAYS_BOOLEAN = {
    "true": True,
    "yes": True,
    "on": True,
    "false": False,
    "no": False,
    "off": False,
}
MOST_READ = 1_000_000
"""Quotes times the characters of the longest source."""
MOST_CITED, MOST_VALUES = 8, 500  # quotes of one value, and values of one call
MOST_QUOTED = 50_000  # characters of the quotes of all values
MOST_NAMED = 20_000  # characters of the names of all chosen values
MOST_AROUND = 2_000_000  # characters of the texts in which these quotes stand or stood
_SHORTEST = 4  # of a text that the user takes up, or that is found without its quote
_LONGEST_NAME = 200  # of a choice that is found in another spelling
_GAP = r"[\s_'’-]{0,2}"
"""What may stand between two signs of a choice's name, but not between two digits."""
_GAP_SIGN = re.compile(r"[\s_'’-]")
_NEVER = r"(?!)"
_OWN_CHOICE = "is the model's own choice: the quoted words do not say {!r}"


async def verify(
    deps: Dependencies, state: GroundingState, run: StepRun
) -> GroundingState:
    """Check every value that the model proposed."""
    proposal = state["proposal"]
    chosen = state["model_may_choose"]
    if proposal is None:
        return {"filled": []}
    check = ValueCheck(
        citations=await in_thread(_citations, proposal, state["evidence"]),
        evidence=state["evidence"],
        # of one tool of several, a slot is named `tool.slot`
        may_choose=frozenset(
            name.removeprefix(f"{state['tool'].name}.") for name in chosen
        ),
        policy=state["policy"],
        zone=deps.services.settings.time_zone,
    )
    schema = state["tool"].schema
    arguments = read_arguments(proposal.arguments) or {}
    # in a thread: tables of countries and towns are read from disk at their first use
    filled = await in_thread(_filled, check, arguments, schema)
    if filled is None:
        run.warnings.append("the model's arguments are too large to be checked")
        filled = []
    named = {one.path for one in filled}
    rivals = [
        check.conflict(path)
        for path in map(_path, proposal.missing)
        if path not in named
    ]
    return {"filled": [*filled, *(one for one in rivals if one)]}


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
    longest = max((len(source.text) for source in evidence.sources), default=0)
    sources = proposal.sources[: MOST_READ // max(longest, 1)]
    stands = cache(evidence.citation)
    for path, fact, quote in dict.fromkeys(
        (_path(taken.path), taken.fact, taken.quote) for taken in sources
    ):
        cited = found[path]
        citation = stands(fact, quote) if len(cited) < MOST_CITED else None
        cited += [citation] if citation else []
    return found


def _path(written: str) -> tuple[str, ...]:
    """`lines[0].amount` and `$.lines.0.amount` are the path `lines.0.amount`."""
    plain = re.sub(r"\[(\d+)\]", r".\1", written.strip().removeprefix("$."))
    return tuple(plain.removeprefix("arguments.").split("."))


@dataclass(frozen=True)
class ValueCheck:
    """The check of the values of one call."""

    citations: Mapping[tuple[str, ...], Sequence[Citation]]
    evidence: Evidence
    may_choose: frozenset[str]
    policy: Policy
    zone: str | None

    def takes_long(self, proposed: Sequence[Leaf]) -> bool:
        """Whether values are too many, or their quotes or texts too long, to check."""
        if len(proposed) > MOST_VALUES:
            return True
        sources = self.evidence.sources
        trusted = sum(len(text) for one in sources for text in one.trusted)
        request = sum(len(one.text) for one in self.evidence.named([REQUEST]))
        quoted = around = named = 0
        for leaf in proposed:
            if leaf.value in leaf.slot.choices:
                named += sum(map(len, leaf.slot.names_of(str(leaf.value))))
            cited = self._cited(leaf.slot.path)
            quoted += sum(len(one.words) for one in cited)
            around += sum(len(one.text) for one in cited) if cited else request
            # each value is also looked for in what its sources said before
            former = [text for one in cited for text in one.source.superseded]
            around += sum(map(len, former))
            if any(not one.is_trusted for one in cited):
                around += trusted
        return quoted > MOST_QUOTED or around > MOST_AROUND or named > MOST_NAMED

    def filled(self, leaf: Leaf) -> FilledValue:
        """The value as it may be sent or offered, or why it is not."""
        slot = leaf.slot
        cited = self._cited(leaf.slot.path)
        value = converted(leaf.value, slot)
        is_given = isinstance(value, str) and slot.choices == (value,)
        if is_given or (
            slot.has_default and not cited and value == slot.schema["default"]
        ):
            return FilledValue(slot.path, "default", value)
        if wrong := problem(value, slot.schema):
            return FilledValue(
                slot.path, "refused", reason=f"does not fit the schema: {wrong}"
            )
        if isinstance(value, dict | list):
            return FilledValue(slot.path, "refused", reason="is no single value")
        current = [one for one in cited if not _is_outdated(one, value)]
        trusted = [one for one in current if one.is_trusted]
        for own in [trusted] if trusted == current else [trusted, current]:
            stands = all(
                any(quoted_in(name, one.words) for one in own) for name in leaf.free
            )
            if (said := self._said(value, slot, own)) and stands:
                return self._accepted(FilledValue(slot.path, "explicit", *said), own)
        if self._may_be_chosen(slot):
            chosen = _citing(FilledValue(slot.path, "inferred", value), current)
            reason = f"is the model's choice: {value!r}"
            refused = replace(chosen, how="refused", reason=reason)
            return chosen if self.policy == "flag" else refused
        return FilledValue(
            slot.path, "refused", reason=self._reason(leaf, value, cited, current)
        )

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
        written = tuple(".".join(path).split("."))
        for length in range(len(written), 0, -1):
            if found := self.citations.get(written[:length]):
                return list(found)
        return []

    def _said(
        self, value: Any, slot: Slot, cited: Sequence[Citation]
    ) -> tuple[Any, str] | None:
        """The value as it is sent, and by which derivation; None where the words do not
        say it.
        """
        if not cited:
            request = (
                self.evidence.citation(REQUEST, value)
                if isinstance(value, str)
                else None
            )
            return (value, "") if request and len(value) >= _SHORTEST else None
        quotes = [
            Quoted(one.words, one.text, self._day(one.source.at)) for one in cited
        ]
        if isinstance(value, bool):
            own = [
                one.words for one in quotes if says(one.words, in_words(slot.path[-1]))
            ]
            said = any(_SAYS_BOOLEAN.get(_ending(words)) is value for words in own)
            return (value, "") if said else None
        if isinstance(value, int | float):
            # a whole number, digit by digit
            digits = str(value) if isinstance(value, int) else ""
            stands = any(whole_in(digits, one.words) is not None for one in quotes)
            whole = "integer" in slot.types and "number" not in slot.types
            how = (
                ""
                if stands
                else number_derivation(value, slot.about, quotes, whole=whole)
            )
            named = any(_names(name, quotes) for name in slot.names_of(str(value))[1:])
            how = "choice" if how is None and named else how
            return None if how is None else (value, how)
        if value in slot.choices:
            names = [name for name in slot.names_of(value) if _names(name, quotes)]
            how = (
                ""
                if value in names
                else "choice"
                if names
                else choice_derivation(value, quotes)
            )
            return (value, how) if names or how else None
        for one in quotes:
            if (words := quoted_in(value, one.words)) is not None:
                return (value if problem(words, slot.schema) else words), ""
        derived = text_derivation(value, slot.about, quotes, self.zone)
        return (value, derived) if derived else None

    def _day(self, at: str) -> date | None:
        return (
            in_zone(datetime.fromisoformat(at), zone_of(self.zone)).date()
            if at
            else None
        )

    def _accepted(self, filled: FilledValue, cited: Sequence[Citation]) -> FilledValue:
        """The value as explicit or derived; as offered where it rests on what others
        said.
        """
        cited = cited or [
            one for one in [self.evidence.citation(REQUEST, filled.value)] if one
        ]
        filled = replace(filled, how="derived") if filled.derivation else filled
        foreign = [one for one in cited if not one.is_trusted]
        if not foreign:
            return _citing(filled, cited)
        if taken_up := self._taken_up(
            filled.value, max(one.source.at for one in foreign)
        ):
            return _citing(filled, [taken_up])
        offered = replace(filled, how="offered", origin=foreign[0].source.origin)
        return _citing(offered, cited)

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
        plain = ".".join(part for part in slot.path if not part.isdigit())
        return bool(self.may_choose & {slot.name, plain})

    def _reason(
        self,
        leaf: Leaf,
        value: Any,
        cited: Sequence[Citation],
        current: Sequence[Citation],
    ) -> str:
        if not cited:
            return "does not stand in a source"
        if not current:
            return "no longer true"
        if isinstance(value, bool) or value in leaf.slot.choices:
            return _OWN_CHOICE.format(value)
        return f"the quoted words do not say {value!r}"[:300]


def _is_outdated(citation: Citation, value: Any) -> bool:
    source = citation.source
    return source.outdated or any(
        map(source.has_superseded, (citation.words, str(value)))
    )


def _names(name: str, quotes: Sequence[Quoted]) -> bool:
    """Whether the words have a name whole, however it is split: "plant-based", "pick-up
    points".
    """
    words = [text for one in quotes for text in (one.words, in_words(one.words))]
    if any(says(one, name) for one in words):
        return True
    signs = re.sub(r"(?<=\w)[\s_'’-]+(?=\w)", "", name.strip())
    if len(signs) > _LONGEST_NAME:
        return False
    # the pattern alone takes quadratic time for texts such as "aaaaaaaa"
    bare = _without_gaps(signs)
    words = [one for one in words if bare in _without_gaps(one)]
    if not words:
        return False
    parts = list[str]()
    for pair in pairwise(signs):
        # Decided for each pair: an alternative in the pattern, or signs that the gap
        # may hold too, take exponential time.
        gap = "" if _GAP_SIGN.search("".join(pair)) else _GAP
        are_digits = pair[0].isdecimal() and pair[1].isdecimal()
        parts += [re.escape(pair[0]), _NEVER if are_digits else gap]
    plural = "s?" if len(signs) >= _SHORTEST else ""
    pattern = re.compile(
        "".join([*parts, re.escape(signs[-1:]), plural]), re.IGNORECASE
    )
    return any(any(tokens(pattern, one)) for one in words)


def _without_gaps(text: str) -> str:
    return _GAP_SIGN.sub("", text).lower()


def _ending(words: str) -> str:
    """What "insured: yes" says."""
    return re.split(r"[:=]", words)[-1].strip(" .!'\"").casefold()


def _citing(filled: FilledValue, cited: Sequence[Citation]) -> FilledValue:
    aliases = tuple(dict.fromkeys(one.source.alias for one in cited))
    separator, quotes = (
        (" / ", "text") if filled.how == "conflict" else (" … ", "words")
    )
    text = separator.join(dict.fromkeys(getattr(one, quotes) for one in cited))
    return replace(filled, sources=aliases, text=text)
