"""topics: new records are gathered into at most 20 tracks (NapMem 5.1, 5.2).

A round works on a copy. It is checked as a whole, and written in one transaction or not at all; a
round that failed is due again. What a track rested on before, it rests on still: the model adds
evidence, code keeps the rest and puts successors in the place of superseded records.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection

from langmem_graph.errors import InvalidInputError
from langmem_graph.extraction.state import (
    ExtractionDependencies,
    ExtractionState,
    counts_of,
    usage_of,
)
from langmem_graph.llm.answer_schemas import TopicRound, TrackEdit
from langmem_graph.llm.structured_calls import load_prompt
from langmem_graph.retrieval.formatting import as_data, indented
from langmem_graph.runtime import StepRun
from langmem_graph.schemas import Record
from langmem_graph.storage import extraction_queue, files, record_queries, tables
from langmem_graph.storage.room import Room
from langmem_graph.topics.files import (
    INDEX,
    ProfileFile,
    TopicFile,
    file_name,
    parse,
    render,
    render_index,
    slug,
)
from langmem_graph.topics.validation import validate_round

CHECKPOINT, DAY, RETRY = "topic_checkpoint", "topic_day", "topic_retry"
SESSION = "topic_session"
NEW_RECORDS = 20
"""More new records than this make a round due (NapMem 5.2)."""
SHOWN = 40
"""New records of one round."""
NARRATIVES = 4
"""Tracks whose whole narrative is shown: those most like the new records."""
KEPT = 0.5
"""A narrative that shrinks below this share drops more than it keeps, and is refused."""


@dataclass(frozen=True)
class Round:
    """What a round starts from."""

    tracks: dict[str, TopicFile]
    profile: ProfileFile | None
    new: dict[str, Record]
    """New records by alias."""
    last: int
    checkpoint: int
    """The last record that an earlier round has gathered."""
    versions: dict[str, int]
    """Of the stored files, the index included."""
    active: frozenset[str]
    superseded_by: dict[str, str]


def is_due(room: Room, *, session: int | None, force: bool) -> bool:
    """Whether new records shall be gathered now.

    Args:
        room: whose.
        session: the number of the session that was read just now.
        force: at a flush.
    """
    with room.database.read_transaction() as connection:
        noted = {key: tables.get_meta(connection, key) for key in (CHECKPOINT, DAY, RETRY, SESSION)}
        waiting = len(files.records_after(connection, int(noted[CHECKPOINT] or 0)))
    new_day = noted[DAY] not in (None, _today())
    new_session = session is not None and noted[SESSION] not in (None, str(session))
    many = waiting > NEW_RECORDS
    return bool(waiting) and (force or new_day or new_session or many or noted[RETRY] == "1")


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


async def topics(
    deps: ExtractionDependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """One round, if it is due."""
    services, batch, usage = deps.services, state.get("batch"), usage_of(state)
    session = batch.session if batch else None
    force = state.get("force", False) or (batch is not None and batch.ends_session)
    if not await services.in_room(
        run.user, lambda room: is_due(room, session=session, force=force)
    ):
        return {}
    begun = await services.in_room(run.user, read_round)
    prompt = load_prompt("topics")
    answer = await deps.runner.ask(
        TopicRound, prompt, _question(begun), usage, lambda answer: _problem(begun, answer)
    )
    made = _made(begun, answer) if answer is not None else None
    written = await services.in_room(run.user, lambda room: _finish(room, begun, made, state))
    return {"usage": usage, "counts": counts_of(state).plus(topics=len(written))}


def read_round(room: Room) -> Round:
    """The tracks, the profile and the new records."""
    with room.database.read_transaction() as connection:
        held = files.all_files(connection)
        stored = [parse(file.body) for name, file in held.items() if name != INDEX]
        checkpoint = int(tables.get_meta(connection, CHECKPOINT) or 0)
        numbers = files.records_after(connection, checkpoint)[:SHOWN]
        new = record_queries.records_by_number(connection, numbers)
        every = record_queries.records_by_number(
            connection, record_queries.all_numbers(connection, None)
        ).values()
    active = frozenset(r.record_id for r in every if r.status == "active")
    successors = {r.record_id: r.superseded_by[0] for r in every if r.superseded_by}
    tracks = [_standing(t, active, successors) for t in stored if isinstance(t, TopicFile)]
    return Round(
        tracks={track.name: track for track in tracks if track.evidence},
        profile=next((file for file in stored if isinstance(file, ProfileFile)), None),
        new={f"r{place}": new[n] for place, n in enumerate(numbers, 1)},
        last=max(numbers, default=checkpoint),
        checkpoint=checkpoint,
        versions={name: file.version for name, file in held.items()},
        active=active,
        superseded_by=successors,
    )


def _standing(track: TopicFile, active: frozenset[str], successors: dict[str, str]) -> TopicFile:
    """The track without evidence that was taken back: an undone record supports nothing."""
    kept = [one for one in track.evidence if one in active or one in successors]
    return track.model_copy(update={"evidence": kept})


def _question(begun: Round) -> str:
    likest = sorted(begun.tracks.values(), key=lambda track: -_likeness(track, begun))[:NARRATIVES]
    tracks = [track_line(track) for track in begun.tracks.values()]
    told = [f"## {t.name}\n    {indented(t.narrative)}" for t in likest]
    new = [
        f"{alias}: {record.said_at:%Y-%m-%d} ({record.kind}) {as_data(record.text)}"
        for alias, record in begun.new.items()
    ]
    return "\n".join(["Tracks:", *(tracks or ["- none"]), *told, "New records:", *new])


def track_line(track: TopicFile) -> str:
    """A track at a glance, as a model is shown it."""
    return f"- {track.name}: {as_data(track.title)}: {as_data(track.summary)}"


def _likeness(track: TopicFile, begun: Round) -> int:
    words = {word for record in begun.new.values() for word in record.text.casefold().split()}
    return len(words & set(f"{track.title} {track.summary} {track.narrative}".casefold().split()))


def _problem(begun: Round, answer: TopicRound) -> str | None:
    """What forbids to commit the round; shown to the model once."""
    try:
        made = _made(begun, answer)
    except InvalidInputError as error:
        return str(error)
    problems = validate_round(
        list(made.values()), None, begun.active, begun.superseded_by
    ).problems + [
        f"{name}: the narrative drops more than it keeps"
        for name, track in made.items()
        if name in begun.tracks and len(track.narrative) < KEPT * len(begun.tracks[name].narrative)
    ]
    return "; ".join(problems[:5]) or None


def _made(begun: Round, answer: TopicRound) -> dict[str, TopicFile]:
    """All tracks as they would be after the round."""
    made = dict(begun.tracks)
    for edit in answer.tracks:
        track = _edited(begun, edit, made)
        made[track.name] = track
    return made


def _edited(begun: Round, edit: TrackEdit, made: dict[str, TopicFile]) -> TopicFile:
    old = made.get(edit.name) or made.get(slug(edit.name))
    own = old.name if old else None
    absorbed = [made.pop(name) for name in set(edit.absorbs) - {own} if name in made]
    before = [one for track in (old, *absorbed) if track for one in track.evidence]
    added = [begun.new[alias].record_id for alias in edit.evidence if alias in begun.new]
    evidence = list(dict.fromkeys([*before, *added]))
    return TopicFile(
        name=old.name if old else slug(edit.name or edit.title),
        title=edit.title,
        summary=edit.summary,
        narrative=edit.narrative,
        evidence=evidence,
        version=old.version + 1 if old else 1,
        updated_at=datetime.now(UTC),
    )


def _finish(
    room: Room, begun: Round, made: dict[str, TopicFile] | None, state: ExtractionState
) -> list[str]:
    """Write the round, or note that it is due again; names of the tracks that changed."""
    batch = state.get("batch")
    with room.database.write_transaction() as connection:
        if extraction_queue.generation(connection) != state["generation"]:
            return []
        if not is_unchanged(connection, begun):
            tables.set_meta(connection, RETRY, "1")
            return []
        tables.set_meta(connection, DAY, _today())
        if batch is not None:
            tables.set_meta(connection, SESSION, str(batch.session))
        tables.set_meta(connection, RETRY, "1" if made is None else "0")
        if made is None:
            return []
        tracks = list(made.values())  # the profile is written anew after this
        checked = validate_round(tracks, None, begun.active, begun.superseded_by)
        if checked.problems:
            tables.set_meta(connection, RETRY, "1")
            return []
        tables.set_meta(connection, CHECKPOINT, str(begun.last))
        return _write(connection, begun, checked.files)


def is_unchanged(connection: Connection, begun: Round) -> bool:
    """False when another run has written topics or the profile since the round was read."""
    checkpoint = int(tables.get_meta(connection, CHECKPOINT) or 0)
    return (checkpoint, files.versions(connection)) == (begun.checkpoint, begun.versions)


def _write(
    connection: Connection, begun: Round, checked: list[TopicFile | ProfileFile]
) -> list[str]:
    tracks = [file for file in checked if isinstance(file, TopicFile)]
    changed = [track for track in tracks if begun.tracks.get(track.name) != track]
    gone = begun.tracks.keys() - {track.name for track in tracks}
    files.drop_files(connection, [file_name(begun.tracks[name]) for name in gone])
    bodies = {file_name(track): render(track) for track in changed}
    files.write_files(connection, bodies | {INDEX: render_index(tracks, begun.profile)})
    return [track.name for track in changed]
