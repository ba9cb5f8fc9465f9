"""extract: the model reads new messages and proposes what to remember (NapMem 5.4, ActMem 1.2).

Messages are shown under short aliases. What cites no new message is dropped; a bare agreement may
also cite the assistant's proposal before it (RealMem).
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
from langmem_graph.retrieval.formatting import LONGEST_NAME, as_data, indented, plain_id
from langmem_graph.runtime import StepRun
from langmem_graph.schedule.parsing import granularity_of, written_event
from langmem_graph.schedule.times import zone_of
from langmem_graph.schemas import Message
from langmem_graph.settings import Settings
from langmem_graph.storage import extraction_queue, message_queries, record_queries, tables
from langmem_graph.storage.room import Room

SCENE = "scene"
_KEPT = {"kind", "facet", "project", "subject", "attribute", "entities"}
UNREADABLE_AFTER = 3
"""Attempts; then a batch whose answers could never be used is done, without records."""


@dataclass(frozen=True)
class View:
    """What the model is shown."""

    messages: dict[str, tuple[int, Message]]
    """By alias; m0 is the assistant's message before the first new one."""
    known: list[str]
    scene: str
    zone: str | None
    """Of the dates shown, so that "tomorrow" is the user's."""


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
    found = [_candidate(memory, view) for memory in answer.memories if _is_sane(memory.text)]
    return {
        "candidates": [one for one in found if one is not None],
        "scene": answer.scene or view.scene,
        "usage": usage,
    }


def _view(room: Room, batch: Batch, settings: Settings) -> View:
    items = batch.items
    background = settings.extraction.background_records
    with room.database.read_transaction() as connection:
        new = message_queries.messages_by_number(connection, items)
        before = extraction_queue.message_before(connection, items[0], batch.session)
        recent = record_queries.all_numbers(connection)[-background:] if background else []
        known = record_queries.texts_of(connection, recent)
        scene = tables.get_meta(connection, SCENE) or ""
        numbers = record_queries.message_numbers(connection, [before.id] if before else [])
    shown = {f"m{place}": (n, new[n]) for place, n in enumerate(items, 1) if n in new}
    if before:
        shown = {"m0": (numbers[before.id][0], before), **shown}
    return View(shown, [known[n] for n in recent], scene, settings.time_zone)


def _question(view: View, message_chars: int) -> str:
    known = "".join(f"- {as_data(text)}\n" for text in view.known) or "- nothing\n"
    earlier = [f"(earlier) {_line('m0', view, message_chars)}"] if "m0" in view.messages else []
    new = [_line(alias, view, message_chars) for alias in view.messages if alias != "m0"]
    return (
        f"Scene so far: {view.scene or 'none'}\nAlready known:\n{known}"
        f"New messages:\n{chr(10).join(earlier + new)}"
    )


def _line(alias: str, view: View, message_chars: int) -> str:
    """One message; its own lines are indented, so that none looks like another message."""
    said = view.messages[alias][1]
    who = plain_id((said.name or said.role)[:LONGEST_NAME])
    words = indented(_shortened(said.text, message_chars))
    at = said.at.astimezone(zone_of(view.zone))
    return f"[{alias}] {at:%Y-%m-%d %H:%M} {who}: {words}"


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n[… {len(text) - limit:,} characters …]\n{text[-limit // 2 :]}"


def _is_sane(text: str) -> bool:
    """False for a repetition loop."""
    words = text.split()
    return bool(words) and (len(words) < 20 or len(set(words)) > len(words) // 3)


def _candidate(memory: NewMemory, view: View) -> Candidate | None:
    """None for what cites no new message."""
    cited = [view.messages[alias] for alias in memory.sources if alias in view.messages]
    fresh = [n for n, said in cited if said is not view.messages.get("m0", (0, None))[1]]
    if not fresh:
        return None
    return Candidate(
        text=" ".join(memory.text.split()),
        **memory.model_dump(include=_KEPT),
        event_time=_event_time(memory, view.zone),
        confirmation="draft" if memory.draft else "confirmed",
        source_ns=sorted({n for n, _ in cited}),
        source_ids=sorted({said.id for _, said in cited}),
        said_at=max(said.at for _, said in cited),
    )


def _event_time(memory: NewMemory, zone: str | None) -> dict[str, Any] | None:
    """When it takes place; None where the model gave no day or time that can be used."""
    if granularity_of(memory.when) in ("month", "year"):  # it would collide with everything so long
        return None
    try:
        event = written_event(memory.when, memory.until, memory.recurrence, zone)
    except InvalidInputError:
        return None
    return event.model_dump(mode="json", exclude_none=True)
