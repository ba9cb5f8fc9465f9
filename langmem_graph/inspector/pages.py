"""What each page shows, asked of the public methods of a memory."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from langmem_graph.errors import InvalidInputError, LangMemGraphError
from langmem_graph.ids_and_times import to_utc
from langmem_graph.inspector.rendering import day, drawing
from langmem_graph.inspector.visit import NotFoundError, RoomName, Visit, memory_of
from langmem_graph.memory import UserMemory
from langmem_graph.reasoning.proof import named_facts, proof_tree
from langmem_graph.retrieval.schedule_lookup import MOST_OCCURRENCES
from langmem_graph.schemas import Message, MessageHit, Record
from langmem_graph.topics.track_and_profile_files import (
    PROFILE,
    ProfileFile,
    TopicFile,
    parse,
)

PER_PAGE = 50
IN_COLUMN = 40
HITS = 10
CLASHES = 4  # of one entry of the schedule
FAR = 10_000_000  # the largest start of a page


def people(visit: Visit) -> dict[str, Any]:
    """All users, then all shared rooms, with sizes, due work and cost."""
    start = visit.number("start", 0, FAR)
    users = visit.memory.users()
    shown = users[start : start + PER_PAGE]
    names = [RoomName(one.user_id) if one.is_shared else one.user_id for one in shown]
    costs = [memory_of(visit.memory, name).usage() for name in names]
    rows = list(zip(names, shown, costs, strict=True))
    return {"rows": rows, "total": len(users), **_paging(start, len(shown), len(users))}


def person(visit: Visit) -> dict[str, Any]:
    """One user or shared room: sizes and the conversations."""
    sessions = visit.user.sessions()[::-1]
    start = visit.number("start", 0, FAR)
    shown = sessions[start : start + PER_PAGE]
    paging = _paging(start, len(shown), len(sessions))
    cost = visit.user.usage()
    return {"overview": visit.overview, "cost": cost, "sessions": shown, **paging}


def conversation(visit: Visit) -> dict[str, Any]:
    """A session's messages, each with what was made of it."""
    session = visit.get("session")
    start = visit.number("start", 0, FAR)
    messages = visit.user.conversation(session, start=start, limit=PER_PAGE + 1)
    if not messages:
        raise NotFoundError(
            f"There is no conversation {session[:100]!r}, or it ends before here."
        )
    shown = messages[:PER_PAGE]
    return {
        "session": session,
        "messages": shown,
        "uses": _uses(visit, shown),
        **_paging(start, len(shown), start + len(messages)),
    }


def _uses(visit: Visit, messages: Sequence[Message]) -> dict[str, Any]:
    used = visit.user.made_of([message.id for message in messages])
    return {use.message_id: use for use in used}


def message(visit: Visit) -> dict[str, Any]:
    """One message: all of it, what was made of it, and what it changed."""
    found = _message(visit)
    used = _uses(visit, [found])[found.id]
    quotes = [change.quote for change in used.changes]
    return {"message": found, "use": used, "quotes": quotes}


def message_text(visit: Visit) -> str:
    """A message's whole text, and nothing else."""
    return _message(visit).text


def _message(visit: Visit) -> Message:
    found = visit.user.get_conversation(visit.get("id"))
    if not found:
        raise NotFoundError(f"There is no message {visit.get('id')[:100]!r}.")
    return found[0]


def _record(visit: Visit, name: str) -> Record:
    found = visit.user.get_records(visit.get(name))
    if not found:
        raise NotFoundError(f"There is no record {visit.get(name)[:100]!r}.")
    return found[0]


def layers(visit: Visit) -> dict[str, Any]:
    """Profile, topics, records and messages in four columns, around what is
    selected.
    """
    files = {name: _parsed(visit, name) for name in visit.user.files()}
    topics = [file for file in files.values() if isinstance(file, TopicFile)]
    profile = files.get(PROFILE)
    chosen = next((one for one in topics if one.name == visit.get("topic")), None)
    start, total, records = _records_of_column(visit, chosen)
    messages = _messages_of_column(visit, records)
    return {
        "profile": profile if isinstance(profile, ProfileFile) else None,
        "topics": topics,
        "records": records,
        "messages": messages,
        "topic": chosen.name if chosen else "",
        "record": visit.get("record"),
        "message": visit.get("message"),
        "as_of": visit.get("as_of"),
        "places": {
            **{("record", one.record_id): n for n, one in enumerate(records)},
            **{("message", one.id): n for n, one in enumerate(messages)},
        },
        **_paging(start, len(records), total),
    }


def _parsed(visit: Visit, name: str) -> TopicFile | ProfileFile | None:
    # the index is neither; an edited file may be invalid
    with suppress(InvalidInputError):
        return parse(visit.user.read_file(name))
    return None


def _records_of_column(
    visit: Visit, topic: TopicFile | None
) -> tuple[int, int, list[Record]]:
    """The first one's place, how many there are, and those of a message, a topic or a
    page.
    """
    user = visit.user
    start = visit.number("start", 0, FAR)
    if visit.get("record"):
        return 0, 1, [_record(visit, "record")]
    if own := visit.get("message"):
        records = [one for use in user.made_of(own) for one in use.records]
        return 0, len(records), records[:IN_COLUMN]
    ids = list(topic.evidence) if topic else []
    if at := visit.get("as_of"):
        held = [row["record_id"] for row in user.export_records(as_of=at)][::-1]
        ids = [one for one in held if topic is None or one in ids]
    if topic or at:
        return start, len(ids), user.get_records(ids[start : start + IN_COLUMN])
    page = user.records(start=start, limit=IN_COLUMN + 1)
    return start, start + len(page), page[:IN_COLUMN]


def _messages_of_column(visit: Visit, records: Sequence[Record]) -> list[Message]:
    own = [visit.get("message")] if visit.get("message") else []
    ids = [*own, *(one for record in records for one in record.message_ids)]
    return visit.user.get_conversation(list(dict.fromkeys(ids))[:IN_COLUMN])


def record(visit: Visit) -> dict[str, Any]:
    """A record: its sources quoted, its chain and history, and which of the chain held
    when.
    """
    user = visit.user
    found = _record(visit, "id")
    history = user.history(found.record_id)
    chain = user.get_records([found.record_id, *(entry.record_id for entry in history)])
    values = [
        str(value.get("raw") or value.get("value") or "") for value in found.values
    ]
    held = []
    if at := visit.get("as_of"):
        names = {row["record_id"] for row in user.export_records(as_of=at)}
        held = [one.record_id for one in chain if one.record_id in names]
    return {
        "record": found,
        "sources": user.get_conversation(found.message_ids),
        "words": [*values, *(change.quote for change in user.changes(found.record_id))],
        "changes": user.changes(found.record_id),
        "chain": sorted(chain, key=lambda one: (one.valid_from, one.created_at)),
        "history": history,
        "as_of": at,
        "held": held,
    }


def forget(visit: Visit) -> dict[str, Any]:
    """What forgetting something would take along; it is done by the form of
    this page.
    """
    named = {kind: visit.get(kind) or None for kind in ("record", "message", "session")}
    visit.check_no_room()
    if not visit.allow_changes:
        return {"named": {}, "preview": None}
    preview = visit.user.forget_preview(**named)
    if not preview.report.messages and not preview.report.records:
        raise NotFoundError("There is nothing of this name to forget.")
    return {"named": {k: v for k, v in named.items() if v}, "preview": preview}


def graph(visit: Visit) -> dict[str, Any]:
    """The records around one, over semantic and causal edges."""
    middle = _record(visit, "id")
    around = visit.user.neighbours(middle.record_id)
    return {"record": middle, **drawing(around)}


def ask(visit: Visit, *, reason: bool = False) -> dict[str, Any]:
    """The question; what is found for it is looked up while the page is on its way."""
    user = visit.user
    query = visit.get("q").strip()

    def find() -> dict[str, Any]:
        try:
            return {"error": "", **_found(user, query, reason=reason)}
        except LangMemGraphError as error:
            return {"error": str(error)}

    return {"q": query, "reasoned": reason, "find": find}


def _found(user: UserMemory, query: str, *, reason: bool) -> dict[str, Any]:
    """What is found, by which signals, and what a model would be shown."""
    hits = user.search_conversation(query, HITS, explain=True)
    recalled = user.recall(query, mode="reason" if reason else "fast", k=HITS)
    uses = user.made_of([hit.message_id for hit in hits])
    return {
        "hits": hits,
        "signals": _by_signal(hits),
        "records": user.search_records(query, HITS, explain=True),
        "recall": recalled,
        "uses": {use.message_id: use for use in uses},
        "proof": proof_tree(recalled),
        "named": named_facts(recalled),
        "facts": {fact.id: fact for fact in recalled.facts},
        "message_ids": [hit.message_id for hit in recalled.evidence],
    }


def _by_signal(hits: Sequence[MessageHit]) -> dict[str, list[float]]:
    """Of each signal that any hit has, its values in the order of the hits."""
    names = dict.fromkeys(name for hit in hits for name in hit.signals or {})
    columns = {
        name: [(hit.signals or {}).get(name, 0.0) for hit in hits] for name in names
    }
    return {name: values for name, values in columns.items() if any(values)}


def schedule(visit: Visit) -> dict[str, Any]:
    """What takes place in some weeks, by day, with clashes; or what clashes with one
    record.
    """
    since = to_utc(visit.get("since", day(datetime.now(UTC))))
    until = to_utc(visit.get("until", day(since + timedelta(days=31))))
    found = visit.user.schedule(since, until)
    one = visit.get("clashes_of")
    listed = [o for o in found if not one or one in (o.record.record_id, *o.clashes)]
    start = visit.number("start", 0, FAR)
    days: dict[str, list[Any]] = {}
    for o in listed[start : start + PER_PAGE]:
        days.setdefault(day(max(o.begin, since)), []).append(o)
    return {
        "days": days,
        "since": since,
        "until": until,
        "earlier": since - max(until - since, timedelta(days=1)),
        "records": {o.record.record_id: o.record for o in found},
        "clashes_of": one,
        "most_clashes": CLASHES,
        "ends_after": MOST_OCCURRENCES if len(found) >= MOST_OCCURRENCES else None,
        **_paging(start, sum(map(len, days.values())), len(listed)),
    }


def compare(visit: Visit) -> dict[str, Any]:
    """What held at one of two dates only."""
    now = datetime.now(UTC)
    first = to_utc(visit.get("first", day(now - timedelta(days=30))))
    second = to_utc(visit.get("second", day(now + timedelta(days=1))))
    found = visit.user.compare(first, second)
    return {"first": first, "second": second, "found": found}


def calls(visit: Visit) -> dict[str, Any]:
    """Model calls with what was refused, and on request what `doctor` finds."""
    found = visit.user.calls(limit=visit.number("limit", PER_PAGE, 1_000) or PER_PAGE)
    health = visit.user.doctor() if visit.get("doctor") else None
    return {"calls": found, "cost": visit.user.usage(), "health": health}


def _paging(start: int, shown: int, total: int) -> dict[str, Any]:
    """Where the pages before and after this one begin."""
    later = start + shown if start + shown < total else None
    size = max(shown, 1) if later else PER_PAGE
    return {
        "start": start,
        "earlier_start": max(0, start - size) if start else None,
        "later_start": later,
        "total": total,
    }


PAGES: dict[str, Callable[[Visit], dict[str, Any]]] = {
    "": people,
    "person": person,
    "conversation": conversation,
    "message": message,
    "layers": layers,
    "record": record,
    "forget": forget,
    "graph": graph,
    "ask": ask,
    "schedule": schedule,
    "compare": compare,
    "calls": calls,
}
