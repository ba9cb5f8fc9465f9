"""commit and schedule: store a batch's records, carry out its changes, end its pending
state.

All of it is one transaction: after a killed process the batch is extracted again. A
change keeps the former values and the words that made it, so that it can be undone.
`schedule` then takes off the schedule what has no time (RealMem 4.2).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from langmem_graph.extraction.claim_due_batch import TURNS_READ
from langmem_graph.extraction.state import (
    Candidate,
    Counts,
    Dependencies,
    ExtractionState,
    Proposal,
    ToForget,
    counts_of,
)
from langmem_graph.reports import ForgetRequest
from langmem_graph.runtime import StepRun
from langmem_graph.schedule.schedule_changes import with_skipped
from langmem_graph.schedule.times import event_in, zone_of
from langmem_graph.schemas import NO_LONGER, Record
from langmem_graph.storage import (
    message_queries,
    pending_messages,
    record_effects,
    record_queries,
    record_writes,
    removed_words,
    tables,
)
from langmem_graph.storage.add_records import UnusableRecordError, draft
from langmem_graph.storage.effects import ADOPT, CONFIRM, SKIP, UNSCHEDULE
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.record_writes import Change, Draft, Words, naive
from langmem_graph.storage.tables import RECORDS
from langmem_graph.storage.user_room import Room, note_deletion

MADE_BY = "model"
# what a proposal and a stored change have in common
_TOLD = {"relation", "message", "quote", "agreed_message", "agreed_quote"}
_RECORD_FIELDS = {"text", "kind", "facet", "project", "subject", "attribute"}


async def commit(
    deps: Dependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Store the records and carry out the changes, then embed what is new or has
    changed.
    """
    services = deps.services

    def work(room: Room) -> ExtractionState:
        with room.database.write_transaction() as connection:
            changed, counts = _commit(connection, services, state)
        if any(one.messages or one.records for one in counts.to_forget):
            room.finish_deletion()
            services.drain(room, at_least=services.settings.storage.index_batch)
        services.embed_new(room, RECORDS, changed)
        return {"changed": changed, "counts": counts}

    return await services.in_room(run.user, work)


async def schedule(
    deps: Dependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Take new records without a usable time off the schedule, without a model."""
    changed = state.get("changed") or []
    zone = deps.services.settings.time_zone

    def work(room: Room) -> ExtractionState:
        with room.database.write_transaction() as connection:
            for n, record in record_queries.records_by_number(
                connection, changed
            ).items():
                if (
                    record.facet == "schedule"
                    and event_in(record.event_time, zone) is None
                ):
                    change = Change.new(
                        "schedule rules", "it has neither a time nor a recurrence"
                    )
                    facet = {"facet": "none"}
                    record_effects.change_record(
                        connection, n, UNSCHEDULE, change, facet
                    )
        return {}

    return await deps.services.in_room(run.user, work) if changed else {}


def _commit(
    connection: Reading, services: Services, state: ExtractionState
) -> tuple[list[int], Counts]:
    """Returns the records that are new or have changed, and the counts of the batch."""
    batch = state["batch"]
    by = state["claimed_by"]
    ours = batch is not None and pending_messages.still_claimed(
        connection, batch.items, by=by
    )
    if (
        batch is None
        or not ours
        or pending_messages.generation(connection) != state["generation"]
    ):
        # extracted by another run, or partly forgotten
        pending_messages.free_claims_of(connection, by)
        return [], counts_of(state)
    proposals = state.get("proposals", [])
    candidates = state.get("candidates", [])
    begins = {
        p.by: p.since for p in proposals if p.since and _begins_then(p, candidates)
    }
    counts = counts_of(state).plus(read=len(batch.items))
    made, counts = _store(connection, services, candidates, begins, counts)
    changed = {one.n for one in made.values()}
    ends = Counter[str]()
    shown = state["view"].messages.values() if proposals else ()
    ids = {one.n: one.message.id for one in shown}
    for n, proposal in _numbered(proposals, made):
        done = _carry_out(connection, n, proposal, made, services.settings.time_zone)
        changed |= done
        if done and proposal.relation in NO_LONGER:
            # where the user agreed to other words, that message lets it end
            ends[ids[proposal.agreed_message or proposal.message]] += 1
    counts = counts.ended(ends)
    forgotten = [
        _forget(connection, services, request) for request in state.get("requests", [])
    ]
    counts = counts.model_copy(update={"to_forget": forgotten})
    pending_messages.mark_read(connection, batch.items)
    turns = int(tables.get_meta(connection, TURNS_READ) or 0) + batch.turns
    tables.set_meta(connection, TURNS_READ, str(turns))
    return sorted(changed), counts


def _forget(
    connection: Reading, services: Services, request: ToForget
) -> ForgetRequest:
    """Take out of messages and records what the user asks to be forgotten."""
    asked = message_queries.messages_by_number(connection, [request.message])
    message = asked[request.message]
    day = message.at.astimezone(zone_of(services.settings.time_zone)).date()
    words = removed_words.Words(request.messages, request.records)
    keep = services.forget_on_request == "hide"
    done = removed_words.remove(connection, request.message, words, day, keep=keep)
    if done.messages or done.records:
        note_deletion(connection)
    changed = message_queries.messages_by_number(connection, done.messages)
    records = record_queries.records_by_number(connection, done.records)
    quote = " … ".join(request.quotes)
    return ForgetRequest(
        message_id=message.id,
        quote=removed_words.as_shown(quote, request.messages, day),
        everything=request.everything,
        messages=sorted(one.id for one in changed.values()),
        records=sorted(one.record_id for one in records.values()),
    )


class _Made(NamedTuple):
    """The record of a candidate, and the change that made it: what it ends is undone
    with it.
    """

    n: int
    change: Change


Made = dict[int | None, _Made]  # by a candidate's place in the answer


def _numbered(proposals: list[Proposal], made: Made) -> Iterator[tuple[int, Proposal]]:
    """The proposals with the numbers of their older records; those of the batch have
    one now.
    """
    for proposal in proposals:
        former = made.get(proposal.former) if proposal.former is not None else None
        n = former.n if former else proposal.record
        if n is not None:
            yield n, proposal


def _begins_then(proposal: Proposal, candidates: list[Candidate | None]) -> bool:
    """True where the new statement holds from the day that the change names.

    What takes place once holds as soon as it was said: the day is that of the event.
    """
    if proposal.relation not in ("replaces", "reschedules") or proposal.by is None:
        return False
    new = candidates[proposal.by] if proposal.by < len(candidates) else None
    if new is None:
        return False
    is_timed = new.event_time is not None or proposal.relation == "reschedules"
    return not is_timed or "recurrence" in (new.event_time or {})


def _store(
    connection: Reading,
    services: Services,
    candidates: list[Candidate | None],
    begins: Mapping[int | None, datetime],
    counts: Counts,
) -> tuple[Made, Counts]:
    """Store the candidates, from when on they hold where that was said (`begins`).

    One that a record says already becomes a further source of it.
    """
    made: Made = {}
    for place, candidate in enumerate(candidates):
        if candidate is None:
            continue
        try:
            new = _draft(connection, services, candidate, begins.get(place))
        except UnusableRecordError as problem:
            counts = counts.plus(str(problem), refused=1)
            continue
        change = Change.new(MADE_BY)
        n, is_new = record_writes.store(connection, new, change)
        made[place] = _Made(n, change)
        counts = counts.plus(**{"stored" if is_new else "known": 1})
    return made, counts


def _draft(
    connection: Reading,
    services: Services,
    candidate: Candidate,
    begins: datetime | None,
) -> Draft:
    messages = record_queries.message_numbers(connection, candidate.source_ids)
    given = candidate.memory.model_dump(include=_RECORD_FIELDS)
    fields = {name: value for name, value in given.items() if value}
    fields |= {
        "confirmation": candidate.confirmation,
        "event_time": candidate.event_time,
    }
    fields |= {"source_message_ids": candidate.source_ids, "values": candidate.values}
    fields |= {"data": candidate.data}
    if begins is not None:
        fields["valid_from"] = begins
    new = draft(fields, messages, services.settings.storage.max_record_chars, MADE_BY)
    return replace(
        new, record=new.record.model_copy(update={"said_at": candidate.said_at})
    )


def _carry_out(
    connection: Reading, n: int, proposal: Proposal, made: Made, zone: str | None
) -> set[int]:
    """Carry out one change; returns the older records and others that have changed by
    it.
    """
    successor = made.get(proposal.by)
    by = successor.n if successor else None
    found = record_queries.records_by_number(connection, [n] if by is None else [n, by])
    old = found.get(n)
    newer = (by, found[by]) if by is not None and by in found else None
    if old is None or by == n or (by is None and proposal.by is not None):
        return set()
    change = successor.change if successor else Change.new(MADE_BY)
    told = proposal.model_dump(include=_TOLD)
    words = Words(since=naive(proposal.since), **told)
    if newer and proposal.relation == "replaces" and newer[1].said_at < old.said_at:
        return _insert_in_chain(connection, newer[0], n, words, change)
    is_done = _apply(connection, proposal, words, (n, old), newer, change, zone)
    return {n} if is_done else set()


def _insert_in_chain(
    connection: Reading, n: int, newest: int, words: Words, change: Change
) -> set[int]:
    """Let a record that was said before the newest one, and stored after it, hold
    between those of the same matter; returns the records that have changed by it.
    """
    chain = record_queries.in_place_of(connection, newest, n)
    begun = record_queries.facts_of(connection, [n])[n].valid_from
    ends = {n: newest}
    for former in chain:
        if former.valid_from <= begun < (former.valid_to or begun):
            ends[former.n] = n
    for later in reversed(chain):
        if later.valid_from > begun:
            ends[n] = later.n
    for former_n, successor in ends.items():
        begins = record_queries.facts_of(connection, [successor])[successor].valid_from
        until = record_queries.aware(begins)
        since = replace(words, since=begins)
        record_effects.supersede(connection, former_n, successor, until, change, since)
    return set(ends)


def _apply(
    connection: Reading,
    proposal: Proposal,
    words: Words,
    older: tuple[int, Record],
    newer: tuple[int, Record] | None,
    change: Change,
    zone: str | None,
) -> bool:
    """Change the older record, for a newer one or without one; False where nothing had
    to be.
    """
    (n, old), relation = older, proposal.relation
    said_at = record_queries.said_at(
        connection, proposal.agreed_message or proposal.message
    )
    if relation in NO_LONGER:
        until = _until(proposal, old, newer[1] if newer else None, said_at)
        if newer is None:
            record_effects.end_record(connection, n, until, change, words)
        else:
            record_effects.supersede(connection, n, newer[0], until, change, words)
    elif relation in ("confirms", "adopts"):
        sources = [
            m for m in (proposal.message, proposal.agreed_message) if m is not None
        ]
        record_writes.add_sources(connection, n, sources, supporting=True)
        adopted = {"confirmation": "confirmed"} if relation == "adopts" else {}
        op = ADOPT if adopted else CONFIRM
        record_effects.change_record(connection, n, op, change, adopted, words)
    elif relation == "skips_once":
        day = proposal.since.isoformat() if proposal.since else None
        event = with_skipped(old.event_time, day, said_at, zone)
        if event is None:
            return False
        former = (old.event_time or {}).get("skipped") or []
        skipped = [day for day in event["skipped"] if day not in former]
        left_out = {"skipped": skipped}
        record_effects.change_record(connection, n, SKIP, change, left_out, words)
    elif newer is not None:
        record_effects.refine(connection, n, newer[0], change, words)
    return relation != "details" or newer is not None


def _until(
    proposal: Proposal, old: Record, new: Record | None, said_at: datetime
) -> datetime:
    """Until when the older record held; what was never right held at no time."""
    if proposal.relation == "corrects":
        return old.valid_from
    is_routine = "recurrence" in (old.event_time or {})
    if proposal.relation in ("reschedules", "cancels", "completes") and not is_routine:
        return max(said_at, old.valid_from)
    begins = new.valid_from if new is not None and proposal.since is None else None
    return max(proposal.since or begins or said_at, old.valid_from)
