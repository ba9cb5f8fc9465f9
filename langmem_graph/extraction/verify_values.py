"""verify: what code can know of a statement and of a change (Mem2ActBench 3.3).

A value is *verbatim* where it stands in a cited message or in a record that the
statement takes the place of, *resolved* where the words that it was read from stand
there ("the 7th" for 2026-12-07) or are the date of the message, else *unsupported*.
Only a statement with an unsupported value is stored as `inferred`, so that no tool call
takes an argument from it unasked.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal

from langmem_graph.extraction.batch_view import shown_day
from langmem_graph.extraction.check_changes import check_changes
from langmem_graph.extraction.state import (
    BatchView,
    Candidate,
    Counts,
    Dependencies,
    ExtractionState,
    Proposal,
    ShownMessage,
    counts_of,
    usage_of,
)
from langmem_graph.llm.answer_schemas import Extraction
from langmem_graph.runtime import StepRun
from langmem_graph.schemas import NO_LONGER
from langmem_graph.storage.user_room import Room
from langmem_graph.values.matching import holds_value

Grade = Literal["verbatim", "resolved", "unsupported"]
_DIGITS = re.compile(r"\d+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_ISO = re.compile(r"\d{4}-\d\d(?:-\d\d)?(?:[T ]\d\d:\d\d)?")


async def verify(
    deps: Dependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Grade the values of the candidates, and check the changes."""
    view = state["view"]
    counts = counts_of(state)
    shown = {one.n: one for one in view.messages.values()}
    told = [one and _as_told(one, shown) for one in state.get("candidates", [])]
    candidates, counts = _without_foreign_instructions(told, shown, counts)

    def check(room: Room) -> ExtractionState:
        return check_changes(
            room, shown, candidates, state.get("proposals", []), counts
        )

    usage = usage_of(state)
    checked = await deps.services.in_room(run.user, check)
    usage.note_refused(Extraction, counts_of(checked).reasons)
    proposals = checked["proposals"]  # a refused change supports nothing
    verified = [
        one and _verified(one, shown, _kept_texts(view, proposals, place), view.zone)
        for place, one in enumerate(checked["candidates"])
    ]
    return {**checked, "candidates": verified, "usage": usage}


def _as_told(candidate: Candidate, shown: Mapping[int, ShownMessage]) -> Candidate:
    """What the assistant, a tool or a document says alone is a draft until the user
    takes it up.
    """
    if any(_is_told(shown[n]) for n in candidate.source_ns):
        return candidate
    return candidate.model_copy(update={"confirmation": "draft"})


def _without_foreign_instructions(
    candidates: Sequence[Candidate | None],
    shown: dict[int, ShownMessage],
    counts: Counts,
) -> tuple[list[Candidate | None], Counts]:
    """Refuse instructions that rest on no message of the user's own."""
    kept = list[Candidate | None]()
    for candidate in candidates:
        own = candidate and any(
            shown[n].message.origin == "user" for n in candidate.source_ns
        )
        if candidate and candidate.memory.kind == "instruction" and not own:
            counts = counts.plus(
                "An instruction rests on no message of the user's.", refused=1
            )
            kept.append(None)
        else:
            kept.append(candidate)
    return kept, counts


def _kept_texts(
    view: BatchView, proposals: Iterable[Proposal], place: int
) -> list[str]:
    """The records that this memory takes the place of: what still holds of them is
    kept.
    """
    ended = (one for one in proposals if one.relation in NO_LONGER)
    replaced = {one.record for one in ended if one.by == place}
    return [
        record.text
        for n, record in view.records.values()
        if n in replaced and record.confirmation != "inferred"
    ]


def _verified(
    candidate: Candidate,
    shown: Mapping[int, ShownMessage],
    kept: Sequence[str],
    zone: str | None,
) -> Candidate:
    sources = [shown[n] for n in candidate.source_ns]
    texts = [*(one.message.text for one in sources), *kept]
    days = [shown_day(one.message, zone) for one in sources]
    graded = [
        {
            **stated.model_dump(),
            "grade": grade_of(stated.raw, stated.value, texts, days),
        }
        for stated in candidate.memory.values
    ]
    accounted = [value for value in graded if value["grade"] != "unsupported"]
    known = [*texts, *days, *(value["value"] for value in accounted)]
    unknown = unknown_numbers(candidate.memory.text, known)
    is_supported = len(accounted) == len(graded) and not unknown
    confirmation = candidate.confirmation if is_supported else "inferred"
    return candidate.model_copy(update={"values": graded, "confirmation": confirmation})


def _is_told(one: ShownMessage) -> bool:
    """Whether a message is the user's own, or one of a talk between named people."""
    message = one.message
    return message.origin == "user" or (
        message.origin == "assistant" and bool(message.name)
    )


def grade_of(
    raw: str, value: str, sources: Sequence[str], days: Sequence[str] = ()
) -> Grade:
    """How a value, read from the `raw` words, is supported by what its statement cites.

    `sources` are the texts of the cited messages, `days` when these were said, as
    shown.
    """
    if any(holds_value(text, value) for text in sources):
        return "verbatim"
    if any(holds_value(day, raw) and not unknown_numbers(value, [day]) for day in days):
        return "resolved"
    is_said = any(holds_value(text, raw) for text in sources)
    return "resolved" if is_said and not _refuted(raw, value) else "unsupported"


def _refuted(raw: str, value: str) -> bool:
    """Whether arithmetic shows that the value is not what the words say.

    Code can tell only where both have one number and the same words around it ("50 mg",
    "500 mg"), or where both are dates in full.
    """
    if _ISO.fullmatch(raw.strip()) and _ISO.fullmatch(value.strip()):
        return raw.strip()[:10] != value.strip()[:10]
    numbers = _NUMBER.findall(raw), _NUMBER.findall(value)
    around = [
        " ".join(_NUMBER.sub(" ", text).casefold().split()) for text in (raw, value)
    ]
    if any(len(found) != 1 for found in numbers) or around[0] != around[1]:
        return False
    return _digits(numbers[0][0]) != _digits(numbers[1][0])


def _digits(number: str) -> str:
    """The digits of a number without its separators and the zeros at both ends of its
    fraction.
    """
    ungrouped = re.sub(r"[.,](?=\d{3}(?:\D|$))", "", number)
    whole, _, fraction = ungrouped.replace(",", ".").partition(".")
    return f"{whole.lstrip('0')}.{fraction.rstrip('0')}"


def unknown_numbers(text: str, known: Iterable[str]) -> set[str]:
    """Numbers of a statement that neither its values nor its messages nor their dates
    have.
    """
    said = [_numbers_in(source) for source in known]
    return {
        digits
        for digits in _DIGITS.findall(text)
        if not any(digits.lstrip("0") in numbers for numbers in said)
    }


@lru_cache(maxsize=16)  # many memories cite one message
def _numbers_in(text: str) -> frozenset[str]:
    return frozenset(digits.lstrip("0") for digits in _DIGITS.findall(text))
