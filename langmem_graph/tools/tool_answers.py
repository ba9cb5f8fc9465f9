"""What each memory tool answers: text quoted as data, and the same as structured data."""

from collections.abc import Sequence
from typing import Any

from langgraph.types import interrupt

from langmem_graph.retrieval.message_search import different
from langmem_graph.retrieval.quoted_context import as_data, framed, plain_id, quote
from langmem_graph.schemas import Message, MessageHit, Record, RecordHit
from langmem_graph.tokens import token_counter
from langmem_graph.tools.tool_turn_budget import Answer, Call

MAX_HITS = 5
"""Hits of one search (NapMem, Table 7)."""
MAX_CANDIDATES = 100
"""Messages from which the hits are taken, so that repeated ones appear once."""
MAX_IDS = 20
"""Messages or records that one call gets by their ids."""
_NOTHING = "Nothing was found. Try other words, or answer without memory."
_EMPTY = "The query is empty. Give words to look for."


def search_records(call: Call, query: str) -> Answer:
    """The best records, best first."""
    if not query.strip():
        return _EMPTY, {"records": []}
    hits = call.user.search_records(query, MAX_HITS)
    lines = [_record_line(hit, hit.at.strftime("%Y-%m-%d")) for hit in hits]
    data = [hit.model_dump(mode="json", exclude={"signals"}) for hit in hits]
    return framed(lines, "best match first") if hits else _NOTHING, {"records": data}


def search_conversation(call: Call, query: str) -> Answer:
    """The best messages, best first, without those that the model sees already."""
    if not query.strip():
        return _EMPTY, {"messages": []}
    candidates = call.user.search_conversation(query, MAX_CANDIDATES + len(call.seen))
    unseen = [hit for hit in candidates if not {hit.message_id, hit.text} & call.seen]
    hits = different(unseen)[:MAX_HITS]
    return _quoted(call, hits, "best match first") if hits else _NOTHING, _messages(hits)


def get_conversation(call: Call, message_ids: list[str]) -> Answer:
    """Messages in the order asked."""
    ids = message_ids[:MAX_IDS]
    messages = call.user.get_conversation(ids)
    if not messages:
        unknown = f"No message has these ids: {as_data(str(ids))}. Use ids as the searches show."
        return unknown, _messages([])
    return _quoted(call, messages, _order(message_ids)), _messages(messages)


def get_records(call: Call, record_ids: list[str]) -> Answer:
    """Records in the order asked, with their sources and what they superseded."""
    records = call.user.get_records(record_ids[:MAX_IDS])
    data = {"records": [record.model_dump(mode="json") for record in records]}
    known = {record.record_id for record in records}
    unknown = [record_id for record_id in record_ids[:MAX_IDS] if record_id not in known]
    if not records:
        ids = as_data(str(unknown))
        return f"No record has these ids: {ids}. Use ids as search_records shows them.", data
    lines = [_record_line(record, _dates(record)) + _relations(record) for record in records]
    order = _order(record_ids) + (f"; unknown ids: {as_data(str(unknown))}" if unknown else "")
    return framed(lines, order), data


def read_file(call: Call, name: str) -> Answer:
    """A topic track, the profile or the index, quoted line by line."""
    text = call.user.read_file(name)
    return framed(map(as_data, text.splitlines()), f"the file {name}"), {"name": name, "text": text}


def remember(call: Call, text: str) -> Answer:
    """Store a sentence as a record."""
    record = call.user.remember(text)
    return f"Remembered as {record.record_id}.", {"records": [record.model_dump(mode="json")]}


def ask_a_human(record_id: str) -> str | None:
    """Interrupt the graph before anything is deleted; a text unless the human agrees."""
    answer = interrupt({"action": "forget", "record_id": record_id})
    return None if answer is True else "The user did not agree; nothing was deleted."


def forget(call: Call, record_id: str) -> Answer:
    """Delete a record for good."""
    report = call.user.forget(record=record_id)
    text = "It is deleted." if report.records else f"There is no record {record_id!r}."
    return text, {"forgotten": report.model_dump(mode="json")}


def _order(ids: Sequence[str]) -> str:
    surplus = len(ids) - MAX_IDS
    return "in the order asked" + (f"; {surplus} ids too many were left out" if surplus > 0 else "")


def _quoted(call: Call, messages: Sequence[Message | MessageHit], order: str) -> str:
    """Quotes of the messages, which share the token budget."""
    counter, context = token_counter(call.settings.encoding), call.settings.context
    share = max(context.excerpt_tokens, context.max_tokens // len(messages))
    return framed((quote(message, counter, share) for message in messages), order)


def _messages(messages: Sequence[Message | MessageHit]) -> dict[str, Any]:
    return {"messages": [m.model_dump(mode="json", exclude={"signals"}) for m in messages]}


def _record_line(record: Record | RecordHit, dates: str) -> str:
    sources = ", ".join(map(as_data, record.message_ids[:MAX_HITS]))
    kind = record.kind if record.confirmation == "confirmed" else record.confirmation
    record_id = plain_id(record.record_id)
    return f"- {dates} {kind} [{record_id}]: {as_data(record.text)} (from {sources})"


def _dates(record: Record) -> str:
    until = f" to {record.valid_to:%Y-%m-%d}" if record.valid_to else ""
    return f"{record.valid_from:%Y-%m-%d}{until} {record.status}"


def _relations(record: Record) -> str:
    named = {"supersedes": record.supersedes, "superseded by": record.superseded_by}
    return "".join(
        f"; {name} {', '.join(map(plain_id, ids))}" for name, ids in named.items() if ids
    )
