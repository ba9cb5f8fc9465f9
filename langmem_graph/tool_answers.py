"""The memory tools, for agents, MCP and trainers: what each takes, and what it
answers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from typing import Annotated, Any

from pydantic import BaseModel, Field, create_model

from langmem_graph.errors import InvalidInputError
from langmem_graph.filters import Where
from langmem_graph.memory import UserMemory
from langmem_graph.metadata import Value
from langmem_graph.reports import ForgetReport
from langmem_graph.retrieval.message_search import different
from langmem_graph.retrieval.quoted_context import (
    ROOMS,
    as_data,
    framed,
    label_words,
    of_room,
    plain_id,
    quote,
)
from langmem_graph.schemas import Kind, Labelled, Message, MessageHit, Record, RecordHit
from langmem_graph.storage.records_by_hand import WrittenBy
from langmem_graph.tokens import token_counter
from langmem_graph.trust import note_of

MAX_TURNS = 4
"""Turns with memory calls since the user's last message (NapMem 5.3)."""
MAX_HITS = 5
"""Hits of one search (NapMem, Table 7)."""
MAX_CANDIDATES = 100
"""Messages from which the hits are taken, so that repeated ones appear once."""
MAX_IDS = 20
"""Messages or records that one call gets by their ids."""
_NOTHING = "Nothing was found. Try other words, or answer without memory."
_EMPTY = "The query is empty. Give words to look for."

Answer = tuple[str, dict[str, Any]]
"""The text for the model, and the same as data for the tool message's artifact."""
Query = Annotated[
    str, Field(description="What to look for, in plain words.", max_length=2_000)
]
MessageIds = Annotated[
    list[str], Field(description="Message ids as the searches show them.")
]
RecordIds = Annotated[
    list[str], Field(description="Record ids as search_records shows them.")
]
FileName = Annotated[
    str, Field(description="index.md, profile.md or topics/NAME.md", max_length=200)
]
NewText = Annotated[
    str, Field(description="One standalone sentence.", max_length=2_000)
]
KindOfText = Annotated[
    Kind, Field(description="An instruction is how to behave from now on.")
]
RightText = Annotated[
    str, Field(description="One standalone sentence that is right.", max_length=2_000)
]
Quote = Annotated[
    str,
    Field(
        description="The words of the human in this conversation that say so, copied "
        "exactly; "
        "without them it is kept as your note.",
        max_length=2_000,
    ),
]
WrongId = Annotated[str, Field(description="The record that is wrong.", max_length=200)]
DeletedId = Annotated[
    str, Field(description="The record to delete for good.", max_length=200)
]


@dataclass(frozen=True)
class Call:
    """The user for whom a tool is called, and ids and texts that the model sees
    already.
    """

    user: UserMemory
    seen: frozenset[str] = frozenset()
    where: Where | None = None
    """What all that is shown or changed has to pass; the model has no say in it."""
    metadata: Mapping[str, Value] | None = None
    """Of what is remembered."""
    session: str | None = None
    """The session of the conversation; None where nobody knows."""
    trust: WrittenBy = "assistant"
    """As whose words counts what the model writes."""

    def written(self, quote: str) -> dict[str, Any]:
        """Whose words the model's sentence is, as `remember` and `correct` take it."""
        return {"origin": self.trust, "quote": quote, "session_id": self.session}

    def sees(self, record_id: str) -> bool:
        """Whether the user has such a record, as far as the filter shows."""
        return any(record.room is None for record in self.records([record_id]))

    def records(self, ids: Sequence[str]) -> list[Record]:
        """The records with these ids that the model may see."""
        found = self.user.get_records(ids, where=self.where)
        return [record for record in found if record.status != "hidden"]


@dataclass(frozen=True)
class MemoryTool:
    """One tool, as agents and MCP clients are offered it; it has the name of its
    function.
    """

    work: Callable[..., Answer]
    """Takes a `Call` and the model's arguments."""
    description: str

    @property
    def name(self) -> str:
        """What the model calls it."""
        return self.work.__name__

    without: str = ""
    """A parameter of `work` that is not offered."""

    @cached_property
    def arguments(self) -> type[BaseModel]:
        """What the model gives: the parameters of `work` after the first."""
        _, *parameters = signature(self.work).parameters.values()
        parameters = [p for p in parameters if p.name != self.without]
        fields: dict[str, Any] = {
            p.name: (p.annotation, ... if p.default is p.empty else p.default)
            for p in parameters
        }
        return create_model(self.name, **fields)


def search_records(call: Call, query: Query) -> Answer:
    """The best records, best first; what no longer holds is labelled."""
    if not query.strip():
        return _EMPTY, {"records": []}
    hits = call.user.search_records(query, MAX_HITS, where=call.where)
    lines = [_record_line(hit, hit.at.strftime("%Y-%m-%d")) for hit in hits]
    data = [hit.model_dump(mode="json", exclude={"signals"}) for hit in hits]
    order = _rooms_named(hits, "best match first")
    return framed(lines, order) if hits else _NOTHING, {"records": data}


def search_conversation(call: Call, query: Query) -> Answer:
    """The best messages, best first, without those that the model sees already."""
    if not query.strip():
        return _EMPTY, {"messages": []}
    most = MAX_CANDIDATES + len(call.seen)
    candidates = call.user.search_conversation(query, most, where=call.where)
    unseen = [hit for hit in candidates if not {hit.message_id, hit.text} & call.seen]
    hits = different(unseen)[:MAX_HITS]
    return _quoted(call, hits, "best match first") if hits else _NOTHING, _messages(
        hits
    )


def get_conversation(call: Call, message_ids: MessageIds) -> Answer:
    """Messages in the order asked."""
    ids = message_ids[:MAX_IDS]
    messages = call.user.get_conversation(ids, where=call.where)
    if not messages:
        named = as_data(", ".join(ids))
        return (
            f"No message has these ids: {named}. Use ids as the searches show.",
            _messages([]),
        )
    return _quoted(call, messages, _order(message_ids)), _messages(messages)


def get_records(call: Call, record_ids: RecordIds) -> Answer:
    """Records in the order asked, with their sources and what they superseded."""
    records = call.records(record_ids[:MAX_IDS])
    data = {"records": [record.model_dump(mode="json") for record in records]}
    known = {record.record_id for record in records}
    unknown = [
        record_id for record_id in record_ids[:MAX_IDS] if record_id not in known
    ]
    named = as_data(", ".join(unknown))
    if not records:
        return (
            f"No record has these ids: {named}. Use ids as search_records shows them.",
            data,
        )
    lines = [
        _record_line(record, _dates(record)) + _relations(record) for record in records
    ]
    order = _order(record_ids) + (f"; unknown ids: {named}" if unknown else "")
    return framed(lines, _rooms_named(records, order)), data


def read_file(call: Call, name: FileName) -> Answer:
    """A topic track, the profile or the index, quoted line by line."""
    # nobody knows what passes, or nothing was read yet
    if call.where or not call.user.files():
        return "There are no files yet. Use search_conversation.", {
            "name": name,
            "text": "",
        }
    text = call.user.read_file(name)
    return framed(map(as_data, text.splitlines()), f"the file {name}"), {
        "name": name,
        "text": text,
    }


def remember(
    call: Call, text: NewText, kind: KindOfText = "fact", quote: Quote = ""
) -> Answer:
    """Store a sentence as a record."""
    record = call.user.remember(
        text, kind, metadata=call.metadata, **call.written(quote)
    )
    note = " It counts as your note, not as the user's word." * (
        record.confirmation == "draft"
    )
    answer = f"Remembered as {plain_id(record.record_id)}.{note}"
    return answer, {"records": [record.model_dump(mode="json")]}


def correct(
    call: Call, record_id: WrongId, text: RightText, quote: Quote = ""
) -> Answer:
    """Store what is right instead of a record that is wrong."""
    if not call.sees(record_id):
        raise InvalidInputError(f"There is no record {record_id!r}.")
    record = call.user.correct(record_id, text, **call.written(quote))
    right = plain_id(record.record_id)
    wrong = plain_id(record_id)
    if record_id in record.supersedes:
        answer = f"Corrected: {right} holds instead of {wrong}."
    else:
        answer = (
            f"Not corrected: {wrong} rests on the user's words and still holds; yours "
            "is noted "
            f"beside it as {right}. It takes a quote of what the user said after "
            "that, before any "
            "other tool answered, with every number of the sentence."
        )
    return answer, {"records": [record.model_dump(mode="json")]}


def forget(call: Call, record_id: DeletedId) -> Answer:
    """Delete a record for good."""
    report = (
        call.user.forget(record=record_id) if call.sees(record_id) else ForgetReport()
    )
    text = "It is deleted." if report.records else f"There is no record {record_id!r}."
    if report.traces_left:
        text += " Its words may stay on disk until another program stops reading them."
    return text, {"forgotten": report.model_dump(mode="json")}


def _order(ids: Sequence[str]) -> str:
    surplus = len(ids) - MAX_IDS
    return "in the order asked" + (
        f"; {surplus} ids too many were left out" if surplus > 0 else ""
    )


def _quoted(call: Call, messages: Sequence[Message | MessageHit], order: str) -> str:
    """Quotes of the messages, which share the token budget."""
    settings = call.user.settings
    counter = token_counter(settings.encoding)
    context = settings.context
    share = max(context.excerpt_tokens, context.max_tokens // len(messages))
    quotes = (quote(message, counter, share) for message in messages)
    return framed(quotes, _rooms_named(messages, order))


def _rooms_named(found: Sequence[Labelled], order: str) -> str:
    return order + (ROOMS if any(one.room for one in found) else "")


def _messages(messages: Sequence[Message | MessageHit]) -> dict[str, Any]:
    return {
        "messages": [m.model_dump(mode="json", exclude={"signals"}) for m in messages]
    }


def _record_line(record: Record | RecordHit, dates: str) -> str:
    sources = ", ".join(map(as_data, record.message_ids[:MAX_HITS]))
    kind = record.kind if record.confirmation == "confirmed" else record.confirmation
    record_id = plain_id(record.record_id)
    label = note_of(record, "") + of_room(record) + label_words(record.labels)
    return (
        f"- {dates} {kind} [{record_id}]{label}: {as_data(record.text)} (from "
        f"{sources})"
    )


def _dates(record: Record) -> str:
    until = f" to {record.valid_to:%Y-%m-%d}" if record.valid_to else ""
    return f"{record.valid_from:%Y-%m-%d}{until} {record.status}"


def _relations(record: Record) -> str:
    both = {"supersedes": record.supersedes, "superseded by": record.superseded_by}
    return "".join(
        f"; {name} {', '.join(map(plain_id, ids))}" for name, ids in both.items() if ids
    )


READING = (
    MemoryTool(
        search_records,
        "Search what is known of this user: facts, events, preferences, instructions, "
        "each with "
        f"its sources. At most {MAX_HITS}. Use it when the answer may depend on the "
        "user; not for "
        "general knowledge.",
    ),
    MemoryTool(
        search_conversation,
        "Search what this user and the assistant said in earlier conversations, word "
        "for word. At "
        f"most {MAX_HITS} quotes with date, speaker and message id. For exact words "
        "and evidence.",
    ),
    MemoryTool(
        get_records,
        (
            "Show records in full, with sources and what they superseded. At most "
            f"{MAX_IDS} ids."
        ),
    ),
    MemoryTool(
        get_conversation,
        "Read messages of earlier conversations by their ids, each as far as there is "
        "room. "
        f"At most {MAX_IDS} ids.",
    ),
    MemoryTool(
        read_file,
        "Read index.md (what topics there are), profile.md (who the user is) or a "
        "topic track. For "
        "broad questions start here.",
    ),
)
"""The tools that change nothing."""
WRITING = (
    MemoryTool(
        remember,
        (
            "Write down one sentence about the user, when they ask you to remember "
            "something."
        ),
    ),
    MemoryTool(
        correct,
        "Replace a record that was never right by one sentence, when the user says "
        "that what is "
        "known of them is wrong. Not for what has changed since.",
    ),
)
"""The tools that write, and whose changes can be undone."""
WITHOUT_QUOTES = tuple(replace(tool, without="quote") for tool in WRITING)
"""The same where nobody knows the conversation, or the model's word is the user's
anyway.
"""
FORGET = MemoryTool(forget, "Delete one record for good, when the user asks for it.")
