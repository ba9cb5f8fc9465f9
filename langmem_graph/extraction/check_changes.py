"""The checks of proposed changes: what code can know, and nothing about what words
mean.

Code knows which records and messages were shown, whether a quote stands in its message
and whose message that is, what was said first, and which kind and grade a record has. A
change that fails a check that is about its evidence becomes `details`: both records
hold and are linked.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from langmem_graph.extraction.state import (
    Candidate,
    Counts,
    ExtractionState,
    Proposal,
    ShownMessage,
)
from langmem_graph.schedule.times import event_in
from langmem_graph.schemas import NO_LONGER, Record
from langmem_graph.storage import record_queries
from langmem_graph.storage.reading import EVERYTHING
from langmem_graph.storage.record_writes import plain
from langmem_graph.storage.user_room import Room
from langmem_graph.values.matching import holds, holds_words, is_telling


class _Evidence(NamedTuple):
    """What a proposal is checked against."""

    change: Proposal
    record: Record
    message: ShownMessage
    agreed: ShownMessage | None
    by: Candidate | None


def check_changes(
    room: Room,
    shown: Mapping[int, ShownMessage],
    candidates: Sequence[Candidate | None],
    proposals: Sequence[Proposal],
    counts: Counts,
) -> ExtractionState:
    """Check each proposal against the records as they are now; `shown` has messages by
    number.

    Returns the candidates without those that only confirm a record, the changes to
    carry out, and the counts with the reasons why proposals were refused.
    """
    wanted = {proposal.record for proposal in proposals if proposal.record is not None}
    with room.database.read_transaction(EVERYTHING) as connection:
        records = record_queries.records_by_number(connection, wanted)
    kept = list[Proposal]()
    for change in sorted(
        proposals, key=lambda one: (shown[one.message].message.at, one.message)
    ):
        former = _at(candidates, change.former)
        record = former.as_record() if former else records.get(change.record or 0)
        if record is None:
            continue  # forgotten meanwhile, or a memory that cannot be used
        by = _at(candidates, change.by)
        agreed = shown.get(change.agreed_message) if change.agreed_message else None
        evidence = _Evidence(change, record, shown[change.message], agreed, by)
        checked, reason = _checked(evidence)
        if reason:
            counts = counts.plus(f"{change.relation}: {reason}", refused_changes=1)
        if checked is not None:
            kept.append(checked)
    new, kept = _without_confirmed(candidates, _said_last(kept))
    return {"candidates": new, "proposals": kept, "counts": counts}


def _at(candidates: Sequence[Candidate | None], place: int | None) -> Candidate | None:
    return (
        candidates[place]
        if place is not None and 0 <= place < len(candidates)
        else None
    )


def _said_last(kept: Sequence[Proposal]) -> list[Proposal]:
    """Of several changes that let one record end, the one said last; and all others."""
    ends = [one for one in kept if one.relation in NO_LONGER]
    last = {(one.record, one.former): one for one in ends}.values()
    return [one for one in kept if one.relation not in NO_LONGER or one in last]


def _checked(evidence: _Evidence) -> tuple[Proposal | None, str | None]:
    """The change as it will be carried out, if any, and why it is not the one
    proposed.
    """
    change = _fitting(evidence)
    allowed = (*NO_LONGER, "skips_once")
    if change.former is not None and (
        change.relation not in allowed or change.former == change.by
    ):
        return None, "a new memory can only be ended, or left out once"
    if (
        evidence.change.by is not None
        and evidence.by is None
        and change.relation != "confirms"
    ):
        return None, "the memory that would hold instead cannot be used"
    for check in _CHECKS:
        problem = check(evidence._replace(change=change))
        if problem:
            return _as_details(evidence), problem
    return change, None


def _fitting(evidence: _Evidence) -> Proposal:
    """The change under the relation that fits the record's status and what takes its
    place.
    """
    change = evidence.change
    record = evidence.record
    relation = change.relation
    if relation == "replaces" and evidence.by is None:
        relation = "ended"
    if relation == "adopts" and record.confirmation != "draft":
        relation = "confirms"
    if relation == "adopts" and evidence.by is not None:
        relation = "replaces"  # by the memory that says without "if" what was settled
    event = event_in(record.event_time)
    if relation == "skips_once" and event is None:
        relation = "details"  # a habit without times holds on
    elif relation == "skips_once" and event and event.recurrence is None:
        relation = "cancels"
    by = change.by if evidence.by is not None else None
    return change.model_copy(update={"relation": relation, "by": by})


def _as_details(evidence: _Evidence) -> Proposal | None:
    """Without its evidence, a change only links what was said, and its quote where it
    stands.
    """
    change = evidence.change
    if (
        evidence.by is None
        or change.former is not None
        or evidence.record.status != "active"
    ):
        return None
    quote = change.quote if holds(evidence.message.message.text, change.quote) else ""
    unsaid = dict.fromkeys(("since", "agreed_message", "agreed_quote"))
    return change.model_copy(update={"relation": "details", "quote": quote, **unsaid})


def _is_active(evidence: _Evidence) -> str | None:
    return None if evidence.record.status == "active" else "the record no longer holds"


def _stands_in_its_message(evidence: _Evidence) -> str | None:
    change = evidence.change
    said = evidence.message.message.text
    if not holds(said, change.quote):
        return "the quote does not stand in the message"
    if not is_telling(said, change.quote):
        return "one word of a message is no quote"
    return None


def _is_the_users_own(evidence: _Evidence) -> str | None:
    """The words are the user's, or the user agreed to them in words that are quoted."""
    if _speaks_for(evidence.message, evidence.record):
        return (
            None if evidence.message.is_new else "the message is not among the new ones"
        )
    agreed = evidence.agreed
    words = evidence.change.agreed_quote or ""
    if agreed is None or not _speaks_for(agreed, evidence.record):
        return "the words are not the user's, and no words of the user's agree to them"
    if not agreed.is_new:
        return "the agreement is not among the new messages"
    if evidence.message.message.origin != "assistant":
        return "the words are neither the user's nor a proposal of the assistant's"
    is_later = agreed.message.at >= evidence.message.message.at
    stands = is_later and holds_words(agreed.message.text, words)
    return None if stands else "the agreement does not stand in its message"


def _speaks_for(shown: ShownMessage, record: Record) -> bool:
    """Whether these are the user's own words, or, between named people, the subject's
    own.
    """
    message = shown.message
    if message.role == "user" and message.origin == "user":
        return True
    is_person = message.origin in ("user", "assistant") and bool(message.name)
    return is_person and plain(message.name or "") == plain(record.subject or "")


def _keeps_what_is_settled(evidence: _Evidence) -> str | None:
    drafted = evidence.by is not None and evidence.by.confirmation == "draft"
    if drafted and evidence.record.confirmation == "confirmed":
        return "a draft does not take the place of what is confirmed"
    return None


def _keeps_instructions(evidence: _Evidence) -> str | None:
    by_user = evidence.message.message.origin == "user" or evidence.agreed is not None
    if evidence.record.kind == "instruction" and not by_user:
        return "only the user changes an instruction"
    return None


def _is_not_older(evidence: _Evidence) -> str | None:
    """An older message does not let a later record end; `commit` turns `replaces`
    round.
    """
    if evidence.change.relation in ("replaces", "confirms", "details", "adopts"):
        return None
    said = (evidence.agreed or evidence.message).message.at
    return (
        "the message is older than the record"
        if said < evidence.record.said_at
        else None
    )


_CHECKS: tuple[Callable[[_Evidence], str | None], ...] = (
    *(_is_active, _stands_in_its_message, _is_the_users_own),
    *(_keeps_what_is_settled, _keeps_instructions, _is_not_older),
)


def _without_confirmed(
    candidates: Sequence[Candidate | None], changes: Sequence[Proposal]
) -> tuple[list[Candidate | None], list[Proposal]]:
    """Without the candidates that only say what a record says already; and the changes.

    A candidate that also takes another record's place is kept.
    """
    needed = {change.by for change in changes if change.relation != "confirms"}
    again = {change.by for change in changes if change.relation == "confirms"} - needed
    kept = [None if place in again else one for place, one in enumerate(candidates)]
    return kept, [
        one.model_copy(update={"by": None}) if one.relation == "confirms" else one
        for one in changes
    ]
