"""extract: the model proposes records for a batch of new messages (NapMem 5.4, ActMem 1.2).

The prompt names messages by short aliases. A proposal that cites no new message is dropped. One
that rests on a bare agreement may also cite the assistant's message before the batch (RealMem).
"""

from dataclasses import dataclass
from typing import Any

from langmem_graph.errors import InvalidInputError
from langmem_graph.extraction.state import (
    Batch,
    Candidate,
    ExtractionDependencies,
    ExtractionState,
    usage_of,
)
from langmem_graph.llm.answer_schemas import Extraction, NewMemory
from langmem_graph.llm.structured_calls import load_prompt
from langmem_graph.retrieval.quoted_context import LONGEST_NAME, as_data, indented, plain_id
from langmem_graph.runtime import StepRun
from langmem_graph.schedule.time_phrases import granularity_of, written_event
from langmem_graph.schedule.times import zone_of
from langmem_graph.schemas import Message
from langmem_graph.settings import Settings
from langmem_graph.storage import (
    message_queries,
    pending_messages,
    record_queries,
    tables_and_migrations,
)
from langmem_graph.storage.user_room import Room

SCENE = "scene"
_COPIED_FIELDS = {"kind", "facet", "project", "subject", "attribute", "entities"}


@dataclass(frozen=True)
class _View:
    """What the prompt shows to the model."""

    messages: dict[str, tuple[int, Message]]
    """Numbers and messages by alias; m0 is the assistant's message before the first new one."""
    known: list[str]
    """Texts of the newest records, as background."""
    scene: str
    """What the conversation was about so far, in the model's words."""
    zone: str | None
    """The time zone of the dates shown: that of the user's "tomorrow"."""


async def extract(
    deps: ExtractionDependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Propose records for the batch."""
    batch, usage, settings = state["batch"], usage_of(state), deps.services.settings
    if batch is None:
        return {}
    view = await deps.services.in_room(run.user, lambda room: _view(room, batch, settings))
    question = _question(view, settings.extraction.message_chars)
    answer = await deps.runner.ask(Extraction, load_prompt("extract"), question, usage)
    if answer is None:
        return {"usage": usage, "failed": "extract"}
    proposed = [_candidate(memory, view) for memory in answer.memories if _is_usable(memory.text)]
    return {
        "candidates": [candidate for candidate in proposed if candidate is not None],
        "scene": answer.scene or view.scene,
        "usage": usage,
    }


def _view(room: Room, batch: Batch, settings: Settings) -> _View:
    items = batch.items
    background = settings.extraction.background_records
    with room.database.read_transaction() as connection:
        new = message_queries.messages_by_number(connection, items)
        before = pending_messages.message_before(connection, items[0], batch.session)
        recent = record_queries.all_numbers(connection)[-background:] if background else []
        known = record_queries.texts_of(connection, recent)
        scene = tables_and_migrations.get_meta(connection, SCENE) or ""
        numbers = record_queries.message_numbers(connection, [before.id] if before else [])
    shown = {f"m{place}": (n, new[n]) for place, n in enumerate(items, 1) if n in new}
    if before:
        shown = {"m0": (numbers[before.id][0], before), **shown}
    return _View(shown, [known[n] for n in recent], scene, settings.time_zone)


def _question(view: _View, message_chars: int) -> str:
    known = "".join(f"- {as_data(text)}\n" for text in view.known) or "- nothing\n"
    earlier = [f"(earlier) {_line('m0', view, message_chars)}"] if "m0" in view.messages else []
    new = [_line(alias, view, message_chars) for alias in view.messages if alias != "m0"]
    return (
        f"Scene so far: {view.scene or 'none'}\nAlready known:\n{known}"
        f"New messages:\n{chr(10).join(earlier + new)}"
    )


def _line(alias: str, view: _View, message_chars: int) -> str:
    """One message of the prompt; its lines are indented, so that none looks like a message."""
    message = view.messages[alias][1]
    speaker = plain_id((message.name or message.role)[:LONGEST_NAME])
    text = indented(_shortened(message.text, message_chars))
    at = message.at.astimezone(zone_of(view.zone))
    return f"[{alias}] {at:%Y-%m-%d %H:%M} {speaker}: {text}"


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n[… {len(text) - limit:,} characters …]\n{text[-limit // 2 :]}"


def _is_usable(text: str) -> bool:
    """False for an empty text, and for one that repeats a few words, as failing models do."""
    words = text.split()
    return bool(words) and (len(words) < 20 or len(set(words)) > len(words) // 3)


def _candidate(memory: NewMemory, view: _View) -> Candidate | None:
    """The proposal as a candidate; None where it cites no new message."""
    sources = [alias for alias in memory.sources if alias in view.messages]
    if not set(sources) - {"m0"}:
        return None
    cited = [view.messages[alias] for alias in sources]
    return Candidate(
        text=" ".join(memory.text.split()),
        **memory.model_dump(include=_COPIED_FIELDS),
        event_time=_event_time(memory, view.zone),
        confirmation="draft" if memory.draft else "confirmed",
        source_ns=sorted({n for n, _ in cited}),
        source_ids=sorted({message.id for _, message in cited}),
        said_at=max(message.at for _, message in cited),
    )


def _event_time(memory: NewMemory, zone: str | None) -> dict[str, Any] | None:
    """When it takes place, as JSON; None where the model gave no usable day or time."""
    if granularity_of(memory.when) in ("month", "year"):  # would overlap everything in so long
        return None
    try:
        event = written_event(memory.when, memory.until, memory.recurrence, zone)
    except InvalidInputError:
        return None
    return event.model_dump(mode="json", exclude_none=True)
