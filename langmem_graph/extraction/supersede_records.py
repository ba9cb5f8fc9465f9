"""The second half of `reconcile`: carry out the model's decisions only where code finds them safe.

A record supersedes an older one only of the same subject and attribute (`supersede_gate`), a
candidate is skipped only when an older record is nearly the same, and a merged sentence may hold
nothing that its parts do not. Every other candidate is stored beside the older records.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from langmem_graph.extraction.state import Candidate, Decision
from langmem_graph.extraction.supersede_gate import judge
from langmem_graph.schedule.times import time_key
from langmem_graph.schemas import Record
from langmem_graph.storage import record_queries
from langmem_graph.storage.user_room import Room
from langmem_graph.values.attributes import same_attribute, same_subject
from langmem_graph.values.verbatim import find_values

FILLERS = frozenset("a an and also as at by for in is it of on or that the to was who with".split())
"""Words that joining two sentences may add or drop; no negation is among them."""
NEGATIONS = frozenset("no not never none nothing longer anymore stopped quit without n t".split())


def settle(
    room: Room, proposed: Sequence[Candidate], decisions: Sequence[Decision], same_floor: float
) -> tuple[list[Candidate], list[Decision]]:
    """Turn a model's decisions into what will be done, each with its reason.

    Args:
        room: the user's room.
        proposed: the candidates.
        decisions: one for each candidate.
        same_floor: cosine from which a candidate may be skipped as already known.
    """
    targets = {n for decision in decisions for n in decision.targets}
    with room.database.read_transaction() as connection:
        older = record_queries.records_by_number(connection, targets)
    settled = [
        _settled(_named(candidate, decision), decision, older, same_floor)
        for candidate, decision in zip(proposed, decisions, strict=True)
    ]
    candidates = [candidate for candidate, _ in settled]
    return candidates, _ordered(candidates, [decision for _, decision in settled])


def _ordered(candidates: Sequence[Candidate], settled: Sequence[Decision]) -> list[Decision]:
    """Several candidates that supersede one record form a chain in time: the last one holds now."""
    replaces: dict[int, list[int]] = {}
    for n in {n for one in settled if one.action == "update" for n in one.targets}:
        places = [p for p, one in enumerate(settled) if one.action == "update" and n in one.targets]
        for earlier, later in pairwise(sorted(places, key=lambda p: candidates[p].said_at)):
            if _overwrites(candidates[earlier], candidates[later]):
                replaces.setdefault(later, []).append(earlier)
    return [
        one.model_copy(update={"replaces": replaces.get(place, [])})
        for place, one in enumerate(settled)
    ]


def _overwrites(earlier: Candidate, later: Candidate) -> bool:
    records = _as_record(earlier), _as_record(later)
    return judge(*records, later.said, user_names=("user",)).outcome == "overwrite"


def _named(candidate: Candidate, decision: Decision) -> Candidate:
    """The candidate with the attribute's name among older records, where the model gave it."""
    if not decision.attribute:
        return candidate
    return candidate.model_copy(update={"attribute": decision.attribute})


def _settled(
    candidate: Candidate, decision: Decision, older: Mapping[int, Record], floor: float
) -> tuple[Candidate, Decision]:
    """The candidate as it will be stored, and what becomes of it."""
    action = decision.action
    targets = [n for n in decision.targets if n in older and older[n].status == "active"]
    if action == "known" or not targets:
        return candidate, Decision(action=action if targets else "store", targets=targets)
    if action == "skip":
        return candidate, _skip(candidate, decision, older, targets, floor)
    if action == "merge":
        return _merge(candidate, decision, older, targets)
    return candidate, _update(candidate, older, targets)


def _skip(
    candidate: Candidate,
    decision: Decision,
    older: Mapping[int, Record],
    targets: list[int],
    floor: float,
) -> Decision:
    """Skipping needs an older record that is nearly the same: its values, and its time if any."""
    values = {value.raw for value in find_values(candidate.text)}
    denied = _telling(candidate.text) & NEGATIONS
    when = time_key(candidate.facet, candidate.event_time)
    for n in targets:
        if when and when != time_key(older[n].facet, older[n].event_time):
            continue  # another appointment of that name
        said = {value.raw for value in find_values(older[n].text)}
        if denied != _telling(older[n].text) & NEGATIONS:
            continue
        if decision.likeness.get(n, 0.0) >= floor and values <= said:
            return Decision(action="known", targets=[n], reason="an older record says it")
    return Decision(action="store", reason="no older record says all of it")


def _merge(
    candidate: Candidate, decision: Decision, older: Mapping[int, Record], targets: list[int]
) -> tuple[Candidate, Decision]:
    """Joining needs one subject and attribute, and a sentence of both halves and no more."""
    halves = [candidate.text, *(older[n].text for n in targets)]
    fits = all(_is_half(candidate, older[n]) for n in targets)
    if not (fits and decision.text and _holds_all(decision.text, halves)):
        return candidate, Decision(action="store", reason="the joined sentence was not usable")
    joined = candidate.model_copy(update={"text": " ".join(decision.text.split())})
    reason = "joined with what adds to it"
    return joined, Decision(action="merge", targets=targets, reason=reason)


def _is_half(candidate: Candidate, old: Record) -> bool:
    new = _as_record(candidate)
    return (
        same_subject(old.subject, new.subject, ("user",))
        and same_attribute(old.attribute, new.attribute)
        and old.kind == new.kind
        and old.confirmation == new.confirmation
        and new.valid_from >= old.valid_from
    )


def _holds_all(text: str, halves: list[str]) -> bool:
    """Every telling word of the halves, each value, and nothing that is in neither."""
    merged, parts = _telling(text), [_telling(half) for half in halves]
    values = {value.raw for half in halves for value in find_values(half)}
    return set().union(*parts) == merged and all(raw in text for raw in values)


def _telling(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold())) - FILLERS


def _update(candidate: Candidate, older: Mapping[int, Record], targets: list[int]) -> Decision:
    new, names = _as_record(candidate), ("user", *candidate.speakers)
    verdicts = {n: judge(older[n], new, candidate.said, user_names=names) for n in targets}
    supersedes = [n for n, verdict in verdicts.items() if verdict.outcome == "overwrite"]
    return Decision(
        action="update" if supersedes else "store",
        targets=supersedes,
        refines=[n for n, verdict in verdicts.items() if verdict.outcome == "refine"],
        reason=" ".join(dict.fromkeys(verdict.reason for verdict in verdicts.values())),
    )


def _as_record(candidate: Candidate) -> Record:
    """The candidate in the form of a record, for comparison with older ones."""
    said_at = candidate.said_at
    return Record(
        record_id="new",
        text=candidate.text,
        kind=candidate.kind,
        facet=candidate.facet,
        confirmation=candidate.confirmation,
        entities=candidate.entities,
        subject=candidate.subject or None,
        attribute=candidate.attribute or None,
        message_ids=candidate.source_ids,
        said_at=said_at,
        valid_from=said_at,
        created_at=said_at,
        updated_at=said_at,
    )
