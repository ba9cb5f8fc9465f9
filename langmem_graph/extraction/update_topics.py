"""topics: integrate new records into at most 20 topic tracks (NapMem 5.1, 5.2).

A round works on a copy, is checked as a whole, and is stored in one transaction or not at all; a
round that failed is due again. The model only adds evidence to a track: code keeps the evidence it
had, and replaces superseded records by their successors.
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
from langmem_graph.retrieval.quoted_context import as_data, indented
from langmem_graph.runtime import StepRun
from langmem_graph.schemas import Record
from langmem_graph.storage import (
    pending_messages,
    record_queries,
    tables_and_migrations,
    topic_file_rows,
)
from langmem_graph.storage.user_room import Room
from langmem_graph.topics.track_and_profile_files import (
    INDEX,
    ProfileFile,
    TopicFile,
    file_name,
    parse,
    render,
    render_index,
    slug,
)
from langmem_graph.topics.validate_round import validate_round

CHECKPOINT, DAY, RETRY = "topic_checkpoint", "topic_day", "topic_retry"
SESSION = "topic_session"
MANY_RECORDS = 20
"""More new records than this make a round due (NapMem 5.2)."""
MAX_RECORDS = 40
"""New records of one round."""
MAX_NARRATIVES = 4
"""Tracks whose whole narrative is shown to the model: those most similar to the new records."""
MIN_SHARE = 0.5
"""A narrative that shrinks below this share of the old one is refused."""


@dataclass(frozen=True)
class Round:
    """What a round starts from, as it is stored."""

    tracks: dict[str, TopicFile]
    profile: ProfileFile | None
    new: dict[str, Record]
    """New records by alias."""
    last: int
    """The number of the last new record: the checkpoint after the round."""
    checkpoint: int
    """The number of the last record that an earlier round has integrated."""
    versions: dict[str, int]
    """Of the stored files, the index included."""
    active: frozenset[str]
    """Ids of the records that hold now."""
    superseded_by: dict[str, str]


async def topics(
    deps: ExtractionDependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Run one round, if it is due."""
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
    tracks = _tracks_after(begun, answer) if answer is not None else None
    changed = await services.in_room(run.user, lambda room: _finish(room, begun, tracks, state))
    return {"usage": usage, "counts": counts_of(state).plus(topics=len(changed))}


def is_due(room: Room, *, session: int | None, force: bool) -> bool:
    """Whether a round is due: a trigger of NapMem 5.2, or one of the flush or the session's end.

    Args:
        room: the user's room.
        session: the number of the session that was extracted just now.
        force: integrate any new records, however few.
    """
    with room.database.read_transaction() as connection:
        noted = {
            key: tables_and_migrations.get_meta(connection, key)
            for key in (CHECKPOINT, DAY, RETRY, SESSION)
        }
        waiting = len(topic_file_rows.records_after(connection, int(noted[CHECKPOINT] or 0)))
    new_day = noted[DAY] not in (None, _today())
    new_session = session is not None and noted[SESSION] not in (None, str(session))
    many = waiting > MANY_RECORDS
    return bool(waiting) and (force or new_day or new_session or many or noted[RETRY] == "1")


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def read_round(room: Room) -> Round:
    """Read the tracks, the profile and the new records, in one transaction."""
    with room.database.read_transaction() as connection:
        held = topic_file_rows.all_files(connection)
        stored = [parse(file.body) for name, file in held.items() if name != INDEX]
        checkpoint = int(tables_and_migrations.get_meta(connection, CHECKPOINT) or 0)
        numbers = topic_file_rows.records_after(connection, checkpoint)[:MAX_RECORDS]
        every = record_queries.all_numbers(connection, None)
        records = record_queries.records_by_number(connection, every)
    active = frozenset(r.record_id for r in records.values() if r.status == "active")
    successors = {r.record_id: r.superseded_by[0] for r in records.values() if r.superseded_by}
    tracks = [_supported(t, active, successors) for t in stored if isinstance(t, TopicFile)]
    return Round(
        tracks={track.name: track for track in tracks if track.evidence},
        profile=next((file for file in stored if isinstance(file, ProfileFile)), None),
        new={f"r{place}": records[n] for place, n in enumerate(numbers, 1)},
        last=max(numbers, default=checkpoint),
        checkpoint=checkpoint,
        versions={name: file.version for name, file in held.items()},
        active=active,
        superseded_by=successors,
    )


def _supported(track: TopicFile, active: frozenset[str], successors: dict[str, str]) -> TopicFile:
    """The track without evidence that was taken back: an undone record supports nothing."""
    kept = [record for record in track.evidence if record in active or record in successors]
    return track.model_copy(update={"evidence": kept})


def _question(begun: Round) -> str:
    similar = sorted(begun.tracks.values(), key=lambda track: -_shared_words(track, begun))
    tracks = [track_line(track) for track in begun.tracks.values()]
    narratives = [f"## {t.name}\n    {indented(t.narrative)}" for t in similar[:MAX_NARRATIVES]]
    new = [
        f"{alias}: {record.said_at:%Y-%m-%d} ({record.kind}) {as_data(record.text)}"
        for alias, record in begun.new.items()
    ]
    return "\n".join(["Tracks:", *(tracks or ["- none"]), *narratives, "New records:", *new])


def track_line(track: TopicFile) -> str:
    """The line of a prompt that names and summarises a track."""
    return f"- {track.name}: {as_data(track.title)}: {as_data(track.summary)}"


def _shared_words(track: TopicFile, begun: Round) -> int:
    words = {word for record in begun.new.values() for word in record.text.casefold().split()}
    return len(words & set(f"{track.title} {track.summary} {track.narrative}".casefold().split()))


def _problem(begun: Round, answer: TopicRound) -> str | None:
    """Why the round cannot be committed; the model is told once."""
    try:
        tracks = _tracks_after(begun, answer)
    except InvalidInputError as error:
        return str(error)
    checked = validate_round(tracks, None, begun.active, begun.superseded_by)
    shrunk = [
        f"{track.name}: the narrative drops more than it keeps"
        for track in tracks
        if (old := begun.tracks.get(track.name))
        and len(track.narrative) < MIN_SHARE * len(old.narrative)
    ]
    return "; ".join([*checked.problems, *shrunk][:5]) or None


def _tracks_after(begun: Round, answer: TopicRound) -> list[TopicFile]:
    """All tracks as they would be after the round."""
    tracks = dict(begun.tracks)
    for edit in answer.tracks:
        track = _edited(begun, edit, tracks)
        tracks[track.name] = track
    return list(tracks.values())


def _edited(begun: Round, edit: TrackEdit, tracks: dict[str, TopicFile]) -> TopicFile:
    """The new or changed track; the tracks that it absorbs are taken out of `tracks`."""
    old = tracks.get(edit.name) or tracks.get(slug(edit.name))
    others = [name for name in dict.fromkeys(edit.absorbs) if old is None or name != old.name]
    absorbed = [tracks.pop(name) for name in others if name in tracks]
    before = [record for track in (old, *absorbed) if track for record in track.evidence]
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
    room: Room, begun: Round, tracks: list[TopicFile] | None, state: ExtractionState
) -> list[str]:
    """Store the round, or note that it is due again; returns the names of changed tracks."""
    batch = state.get("batch")
    with room.database.write_transaction() as connection:
        if pending_messages.generation(connection) != state["generation"]:
            return []
        if not is_unchanged(connection, begun):
            tables_and_migrations.set_meta(connection, RETRY, "1")
            return []
        tables_and_migrations.set_meta(connection, DAY, _today())
        if batch is not None:
            tables_and_migrations.set_meta(connection, SESSION, str(batch.session))
        tables_and_migrations.set_meta(connection, RETRY, "1" if tracks is None else "0")
        if tracks is None:
            return []
        # The profile is not checked: it is written anew after this.
        checked = validate_round(tracks, None, begun.active, begun.superseded_by)
        tables_and_migrations.set_meta(connection, CHECKPOINT, str(begun.last))
        return _write(connection, begun, checked.files)


def is_unchanged(connection: Connection, begun: Round) -> bool:
    """False when another run has stored topics or the profile since the round was read."""
    checkpoint = int(tables_and_migrations.get_meta(connection, CHECKPOINT) or 0)
    return (checkpoint, topic_file_rows.versions(connection)) == (begun.checkpoint, begun.versions)


def _write(
    connection: Connection, begun: Round, checked: list[TopicFile | ProfileFile]
) -> list[str]:
    tracks = [file for file in checked if isinstance(file, TopicFile)]
    changed = [track for track in tracks if begun.tracks.get(track.name) != track]
    gone = begun.tracks.keys() - {track.name for track in tracks}
    topic_file_rows.drop_files(connection, [file_name(begun.tracks[name]) for name in gone])
    bodies = {file_name(track): render(track) for track in changed}
    topic_file_rows.write_files(connection, bodies | {INDEX: render_index(tracks, begun.profile)})
    return [track.name for track in changed]
