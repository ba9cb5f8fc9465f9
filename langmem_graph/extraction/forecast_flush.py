"""Says what a flush would read and about how much it would cost, without calling a
model.

The batches are those of `claim`, counted as the calls would show them; answers are
estimated.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from math import ceil
from time import perf_counter
from typing import NamedTuple

from langchain_core.messages import SystemMessage
from pydantic import BaseModel

from langmem_graph.errors import NothingStoredError
from langmem_graph.extraction.batch_view import (
    MESSAGES_BEFORE,
    TOKENS_BEFORE,
    batch_question,
    shortened,
)
from langmem_graph.extraction.claim_due_batch import batches_of, count_turns
from langmem_graph.extraction.extract_records import extract_prompt
from langmem_graph.extraction.plan_round import MAX_WAITING
from langmem_graph.extraction.records_in_view import TOKENS as TOKENS_OF_RECORDS
from langmem_graph.extraction.records_in_view import share_of
from langmem_graph.extraction.state import Batch, BatchView, ShownMessage
from langmem_graph.llm.answer_schemas import Extraction, Reconciliation
from langmem_graph.llm.structured_calls import prompt_tokens
from langmem_graph.reports import FlushForecast
from langmem_graph.schemas import Message
from langmem_graph.settings import Settings
from langmem_graph.storage import message_queries, pending_messages
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.reading import EVERYTHING, Reading
from langmem_graph.tokens import TokenCounter, token_counter

OUTPUT_SHARE = 1.0
"""Tokens of answers for each token that people (not the assistant) said. The memories
that LoCoMo and RealMem publish, written as answers of our schema, take .79 and .88
without values and times: `python -m benchmarks.backlog --data DIR`.
"""
EMPTY_ANSWER = 20  # tokens of an answer that says that there is nothing
# share of the batches with a second call, at most: what it is designed for
SECOND_CALLS = 0.3
# what people say for each memory: 84 tokens in LoCoMo, 112 in RealMem
MEMORY_TOKENS = 80
# of a record's line: 15 and its text, which has 21 in LoCoMo and 67 in RealMem
RECORD_TOKENS = 50
CAUSAL_CALL, TOPICS_CALL, PROFILE_CALL = (6_000, 400), (11_000, 2_500), (4_000, 600)
"""Input and output; own figures, from the limits of what these calls show and may
answer.
"""


class _Size(NamedTuple):
    """Tokens of one batch."""

    shown: int  # its messages and what was said before, as the call shows them
    people: int  # what people said in its messages
    records: float  # of the records that the call may show


class _Calls(NamedTuple):
    """Some calls, and the tokens of all of them together."""

    number: int
    given: float
    answered: float


def forecast(services: Services, user_id: str, *, finds_causes: bool) -> FlushForecast:
    """What a flush of this user's pending messages would cost.

    The room is opened without starting work that is due in it: that would read messages
    already.
    """
    start = perf_counter()
    foreseen = FlushForecast()
    services.check_open()
    with suppress(NothingStoredError), services.directory.room(user_id) as room:
        foreseen = room.database.read(
            lambda connection: _foresee(connection, services.settings, finds_causes),
            EVERYTHING,
        )
    milliseconds = (perf_counter() - start) * 1_000
    return foreseen.model_copy(update={"milliseconds": milliseconds})


def _foresee(
    connection: Reading, settings: Settings, finds_causes: bool
) -> FlushForecast:
    counter = token_counter(settings.encoding)
    unread = pending_messages.unread_messages(connection)
    batches = list(batches_of(unread))
    if not batches:
        return FlushForecast(tokens_exact=counter.exact)
    sizes = list(_sizes(connection, batches, counter, settings))
    stored = message_queries.counts(connection).records * RECORD_TOKENS
    calls = [
        *_first_calls(sizes, stored, counter),
        _second_calls(sizes, counter, settings),
        *_rounds(sizes, finds_causes),
    ]
    return FlushForecast(
        messages=len(unread),
        turns=count_turns(unread),
        sessions=len({message.session for message in unread}),
        batches=len(batches),
        calls_low=len(batches),
        calls_high=sum(call.number for call in calls),
        input_tokens=round(sum(call.given for call in calls)),
        output_tokens=round(sum(call.answered for call in calls)),
        tokens_exact=counter.exact,
    )


def _sizes(
    connection: Reading,
    batches: Sequence[Batch],
    counter: TokenCounter,
    settings: Settings,
) -> Iterator[_Size]:
    chars = settings.extraction.message_chars
    for batch in batches:
        found = message_queries.messages_by_number(connection, batch.items)
        new = {f"m{n}": ShownMessage(n, found[n], is_new=True) for n in batch.items}
        question = batch_question(BatchView(new, {}, settings.time_zone), chars)
        people = _said(
            (m for m in found.values() if m.role == "user" or m.name), counter, chars
        )
        before = _said(_before(connection, batch), counter, chars)
        records = TOKENS_OF_RECORDS * share_of(found.values())
        yield _Size(
            counter.count(question) + min(TOKENS_BEFORE, before), people, records
        )


def _said(messages: Iterable[Message], counter: TokenCounter, chars: int) -> int:
    return sum(counter.count(shortened(message.text, chars)) for message in messages)


def _before(connection: Reading, batch: Batch) -> list[Message]:
    """What was said before the batch in its first session, as far as a call may show
    it.
    """
    first = min(batch.items)
    session = message_queries.session_of(connection, first)
    numbered = pending_messages.messages_before(
        connection, first, session, MESSAGES_BEFORE
    )
    return [message for _, message in numbered]


def _first_calls(
    sizes: Sequence[_Size], stored: int, counter: TokenCounter
) -> Iterator[_Calls]:
    """The calls that read the batches, with what they show; earlier ones make records,
    too.
    """
    rules = _rules(counter, "extract", Extraction)
    answered = 0.0
    for size in sizes:
        in_view = min(size.records, stored + answered)
        told = EMPTY_ANSWER + OUTPUT_SHARE * size.people
        answered += told
        yield _Calls(1, rules + size.shown + in_view, told)


def _second_calls(
    sizes: Sequence[_Size], counter: TokenCounter, settings: Settings
) -> _Calls:
    """Second calls show the new memories, the new messages, and further records."""
    count = ceil(SECOND_CALLS * len(sizes))
    told = sum(size.shown + OUTPUT_SHARE * size.people for size in sizes) / len(sizes)
    further = settings.extraction.records_reconciled * RECORD_TOKENS
    shown = _rules(counter, "reconcile", Reconciliation) + told + further
    return _Calls(count, count * shown, count * EMPTY_ANSWER)


def _rounds(sizes: Sequence[_Size], finds_causes: bool) -> list[_Calls]:
    """The calls for causes, topics and profile at the end."""
    records = max(1, ceil(sum(size.people for size in sizes) / MEMORY_TOKENS))
    topics = ceil(records / MAX_WAITING)
    counts = (
        (int(finds_causes), CAUSAL_CALL),
        (topics, TOPICS_CALL),
        (1, PROFILE_CALL),
    )
    return [
        _Calls(count, count * given, count * answered)
        for count, (given, answered) in counts
    ]


def _rules(counter: TokenCounter, prompt: str, schema: type[BaseModel]) -> int:
    """Tokens of what is the same in every call: rules, examples and the schema."""
    return prompt_tokens(counter, schema, [SystemMessage(extract_prompt(prompt))])
