"""extract: one call reads a batch (NapMem 5.4, ActMem 1.2, RealMem, Mem2ActBench 3.3).

It answers with statements worth remembering and with changes of the records shown. A
statement that cites no new message is dropped, and so is a change of anything that was
not shown.
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from langmem_graph.errors import InvalidInputError
from langmem_graph.extraction.batch_view import batch_question, read_view
from langmem_graph.extraction.claim_due_batch import BATCH_BYTES
from langmem_graph.extraction.state import (
    Batch,
    BatchView,
    Candidate,
    Counts,
    Dependencies,
    ExtractionState,
    Proposal,
    ShownMessage,
    ToForget,
    usage_of,
)
from langmem_graph.llm.answer_schemas import (
    MOST_MEMORIES,
    Extraction,
    FormedExtraction,
    FormedMemory,
    NewMemory,
    ProposedChange,
)
from langmem_graph.llm.structured_calls import RunUsage, load_prompt
from langmem_graph.reading import Reading, reading_of
from langmem_graph.runtime import StepRun
from langmem_graph.schedule.model_written_times import read_day, written_event
from langmem_graph.storage import pending_messages
from langmem_graph.storage.user_room import Room

EVERYTHING = "all"
"""Stands for a record where the user asks to forget all that is known."""
_ALIAS = re.compile(r"([bmn]?)(\d+)")


async def extract(
    deps: Dependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Propose records and changes for the batch; one that is too much for an answer is
    halved.
    """
    batch = state["batch"]
    usage = usage_of(state)
    services = deps.services
    reading = reading_of(services.reading, run.user)
    schema = FormedExtraction if reading.schemas else Extraction
    prompt = extract_prompt("extract") + reading_prompt(reading)
    while batch is not None:
        show = partial(
            read_view, services=services, batch=batch, first_alias=deps.first_alias
        )
        view = await services.in_room(run.user, show)
        question = batch_question(view, services.settings.extraction.message_chars)
        answer = await deps.runner.ask(schema, prompt, question, usage)
        half = _half(batch, view) if _is_too_much(answer, view, usage) else None
        if half is not None:
            await services.in_room(
                run.user, partial(_free_rest, whole=batch, half=half)
            )
            batch = half
        elif answer is None:
            return {"usage": usage, "failed": "extract", "batch": batch}
        else:
            return {
                "batch": batch,
                "view": view,
                "usage": usage,
                **_read(answer, view, reading),
            }
    return {}


def extract_prompt(name: str) -> str:
    """The prompt of this name with the rules of changes, which two calls have in
    common.
    """
    return f"{load_prompt(name)}\n{load_prompt('changes')}"


def reading_prompt(reading: Reading) -> str:
    """What the application adds to the rules, each in a line of its own; empty without
    any.
    """
    given = {
        "{instructions}": reading.instructions,
        "{never}": reading.never,
        "{forms}": reading.forms(),
    }
    head, *lines = load_prompt("reading").splitlines()
    told = [
        line.replace(name, " ".join(text.split()))
        for line in lines
        for name, text in given.items()
        if name in line and text.strip()
    ]
    return "\n".join(["", head, *told]) if told else ""


def _is_too_much(answer: Extraction | None, view: BatchView, usage: RunUsage) -> bool:
    """Whether a full answer may have left something out, or one to a long batch was cut
    off.
    """
    if answer is not None and not answer.is_cut_off:
        return len(answer.memories) >= MOST_MEMORIES
    new = [one.message.text for one in view.messages.values() if one.is_new]
    return (
        not usage.unreachable
        and sum(len(text.encode()) for text in new) > BATCH_BYTES / 2
    )


def _half(batch: Batch, view: BatchView) -> Batch | None:
    """The first half of the batch, which ends after an answer; None where it cannot be
    halved.
    """
    shown = [one for one in view.messages.values() if one.is_new]
    middle = len(shown) // 2
    ends = [
        i + 1 for i, one in enumerate(shown[:-1]) if one.message.role == "assistant"
    ]
    if not ends:
        return None
    items = tuple(
        one.n for one in shown[: min(ends, key=lambda end: abs(end - middle))]
    )
    turns = sum(one.message.role == "assistant" for one in shown[: len(items)])
    return Batch(items=items, turns=min(turns, batch.turns))


def _free_rest(room: Room, whole: Batch, half: Batch) -> None:
    """Give back the messages of the second half."""
    rest = [n for n in whole.items if n not in half.items]
    with room.database.write_transaction() as connection:
        pending_messages.free(connection, rest)


def _read(answer: Extraction, view: BatchView, reading: Reading) -> ExtractionState:
    """What of the answer can be used, and why the rest cannot."""
    reasons: list[str] = []
    candidates = [
        read_candidate(memory, view, reading, reasons) for memory in answer.memories
    ]
    asked = [one for one in answer.changes if one.relation == "forget"]
    proposals = list(read_changes(_placed(answer, reasons), view, reasons))
    refused = sum(candidate is None for candidate in candidates)
    counts = Counts(refused=refused, reasons=reasons)
    found: ExtractionState = {
        "candidates": candidates,
        "proposals": proposals,
        "counts": counts,
    }
    requests = list(_requests(asked, view, reasons))
    return {**found, "look_for": answer.look_for, "requests": requests}


def _requests(
    asked: Sequence[ProposedChange], view: BatchView, reasons: list[str]
) -> Iterator[ToForget]:
    """What the user asks to be forgotten: a message's requests in one.

    A message that was not shown asks nothing.
    """
    by_message = dict[tuple[int, bool], list[ProposedChange]]()
    for request in asked:
        message = view.messages.get(_plain_alias(request.message))
        if message is None:
            reasons.append(f"A request names what was not shown: {request.message}")
            continue
        everything = request.record == EVERYTHING
        by_message.setdefault((message.n, everything), []).append(request)
    for (n, everything), requests in by_message.items():
        records = [view.records.get(_plain_alias(r.record, "n")) for r in requests]
        yield ToForget(
            message=n,
            quotes=tuple(dict.fromkeys(request.quote for request in requests)),
            told_by=tuple(record[0] for record in records if record),
            everything=everything,
        )


def _placed(answer: Extraction, reasons: list[str]) -> list[ProposedChange]:
    """The changes, each naming its memory by the place among those that could
    be read.
    """
    placed = list[ProposedChange]()
    for change in answer.changes:
        if change.relation == "forget":
            continue
        by = None if change.by is None else answer.place_of("memories", change.by)
        if by is None and change.by is not None:
            reasons.append(
                f"A change names a memory that could not be read: {change.by}"
            )
            continue
        record = _placed_record(answer, change)
        placed.append(change.model_copy(update={"by": by, "record": record}))
    return placed


def _placed_record(answer: Extraction, change: ProposedChange) -> str:
    """What the change is of: an alias, or the place of an earlier memory among those
    read.
    """
    if not change.record.isdecimal() or int(change.record) >= MOST_MEMORIES:
        return change.record
    place = answer.place_of("memories", int(change.record))
    return change.record if place is None else str(place)


def read_candidate(
    memory: NewMemory, view: BatchView, reading: Reading, reasons: list[str]
) -> Candidate | None:
    """The proposal as a candidate; None where it says nothing or cites no new
    message.
    """
    cited = list(_cited(memory.sources, view))
    if not _is_usable(memory.text) or not any(one.is_new for one in cited):
        reasons.append(f"A memory cites no new message: {memory.text[:80]}")
        return None
    cited.sort(key=lambda one: one.n)
    text = _with_verbatim(memory, cited, reasons)
    return Candidate(
        memory=memory.model_copy(update={"text": text, "verbatim": ""}),
        source_ns=[one.n for one in cited],
        source_ids=[one.message.id for one in cited],
        said_at=max(one.message.at for one in cited),
        event_time=_event_time(memory, cited, view.zone, reasons),
        confirmation="draft" if memory.draft else "confirmed",
        data=_data(memory, reading, reasons),
    )


def _with_verbatim(
    memory: NewMemory, cited: Sequence[ShownMessage], reasons: list[str]
) -> str:
    """The statement, and below it in a fence what is to be kept word for word.

    It is taken from the message itself, so that nothing in it is another one's.
    """
    text = " ".join(memory.text.split())
    wanted = memory.verbatim.strip()
    if not wanted:
        return text
    for one in cited:
        if wanted in one.message.text:
            fence = "```" if "```" not in wanted else "~~~~"
            return f"{text}\n{fence}\n{wanted}\n{fence}"
    reasons.append(f"A text to be kept does not stand in its message: {wanted[:80]}")
    return text


def _data(
    memory: NewMemory, reading: Reading, reasons: list[str]
) -> dict[str, Any] | None:
    """The form that the statement fills; one that does not fit is left out, not the
    statement.
    """
    if not isinstance(memory, FormedMemory) or not memory.form:
        return None
    try:
        return reading.form(memory.form, memory.data)
    except InvalidInputError as error:
        reasons.append(f"A form cannot be used: {error}")
        return None


def _cited(aliases: Sequence[str], view: BatchView) -> Iterator[ShownMessage]:
    for alias in dict.fromkeys(map(_plain_alias, aliases)):
        if alias in view.messages:
            yield view.messages[alias]


def _plain_alias(alias: str, letter: str = "m") -> str:
    """An alias as it was shown: models also write `[m7]`, `M7` or `7`."""
    found = _ALIAS.search(alias.casefold())
    return f"{found[1] or letter}{found[2]}" if found else alias


def _is_usable(text: str) -> bool:
    """False for an empty text, and for one that repeats a few words, as failing models
    do.
    """
    words = text.split()
    return bool(words) and (len(words) < 20 or len(set(words)) > len(words) // 3)


def _event_time(
    memory: NewMemory,
    cited: Sequence[ShownMessage],
    zone: str | None,
    reasons: list[str],
) -> dict[str, Any] | None:
    """When it takes place, as JSON; None where the model gave no usable day or time."""
    if not memory.when and not memory.recurrence:
        return None
    said_at = max(one.message.at for one in cited)
    try:
        event = written_event(
            memory.when, memory.until, memory.recurrence, zone, said_at
        )
    except InvalidInputError as error:
        reasons.append(f"A time cannot be read: {error}")
        return None
    if event.granularity in ("month", "year"):  # would overlap everything in so long
        return None
    return event.model_dump(mode="json", exclude_none=True)


def read_changes(
    changes: Sequence[ProposedChange], view: BatchView, reasons: list[str]
) -> Iterator[Proposal]:
    """The proposed changes with their aliases resolved; those that name nothing shown
    are noted.
    """
    for change in changes:
        record = view.records.get(_plain_alias(change.record, "n"))
        former = (
            int(change.record) if change.record.isdecimal() and record is None else None
        )
        message = view.messages.get(_plain_alias(change.message))
        if (record is None and former is None) or message is None:
            reasons.append(
                f"A change names what was not shown: {change.record}, {change.message}"
            )
            continue
        agreed = view.messages.get(_plain_alias(change.agreed_message))
        yield Proposal(
            record=record[0] if record else None,
            former=former,
            relation=change.relation,
            by=change.by,
            since=read_day(change.since, view.zone) if change.since else None,
            message=message.n,
            quote=change.quote,
            agreed_message=agreed.n if agreed else None,
            agreed_quote=change.agreed_quote if agreed else None,
        )
