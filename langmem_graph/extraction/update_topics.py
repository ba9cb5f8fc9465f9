"""topics: gather changed records into at most 20 topic tracks (NapMem 5.1, 5.2).

The good edits are stored in one transaction; the records of the others wait for the
next round. The model only adds evidence to a track: code keeps what it had, also where
it no longer holds.
"""

from dataclasses import replace

from langmem_graph.extraction.edit_tracks import EditedTracks, apply_edits, find_track
from langmem_graph.extraction.plan_round import MIN_CHANGED
from langmem_graph.extraction.state import (
    Dependencies,
    ExtractionState,
    counts_of,
    usage_of,
)
from langmem_graph.extraction.topic_round import (
    TopicsRound,
    may_be_stored,
    read_round,
    round_question,
)
from langmem_graph.llm.answer_schemas import TopicRound
from langmem_graph.llm.structured_calls import RunUsage, load_prompt
from langmem_graph.runtime import StepRun
from langmem_graph.storage import rounds
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.user_room import Room
from langmem_graph.topics.track_and_profile_files import (
    INDEX,
    TopicFile,
    file_name,
    render,
    render_index,
)

# after so many rounds that could not use it, a record is given up; own figure
MAX_REFUSALS = 3


async def topics(
    deps: Dependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Run one round, where enough records wait; what it leaves is for the next run."""
    usage = usage_of(state)
    if deps.runner.is_spent(usage):
        return {"again": True}
    begun = await deps.services.in_room(run.user, read_round)
    edited = await _ask(deps, begun, usage)
    if edited is None:  # all of it stays due
        return {"usage": usage, "round_due": False}
    changed = await deps.services.in_room(
        run.user, lambda room: _finish(room, begun, edited, state)
    )
    reasons = [*edited.reasons, *_put_aside(begun, edited)]
    counts = counts_of(state).plus(*reasons, topics=len(changed))
    return {"usage": usage, "counts": counts, "again": begun.rest >= MIN_CHANGED}


async def _ask(
    deps: Dependencies, begun: TopicsRound, usage: RunUsage
) -> EditedTracks | None:
    """The tracks after the model's edits; None where the model could not be reached."""
    if not begun.numbers:
        return EditedTracks(dict(begun.files.tracks))
    question = round_question(begun, deps.services.settings.time_zone)
    unreachable = usage.unreachable
    answer = await deps.runner.ask(TopicRound, load_prompt("topics"), question, usage)
    if answer is None and usage.unreachable > unreachable:
        return None
    if answer is None:  # `usage` says why
        unread = dict.fromkeys(begun.shown.records.values(), "no usable answer")
        return EditedTracks(dict(begun.files.tracks), refused=unread)
    edited = apply_edits(begun.files.tracks, answer.tracks, begun.shown)
    # nobody knows which records the lost edits rest on
    if why := answer.loss_in("tracks"):
        left = set(begun.shown.records.values()) - edited.told
        edited.refused = dict.fromkeys(left, why) | edited.refused
        edited.reasons.append(why)
    if edited.too_long and not deps.runner.is_spent(usage):
        edited = await _shortened(deps, begun, edited, usage)
    return edited


async def _shortened(
    deps: Dependencies, begun: TopicsRound, edited: EditedTracks, usage: RunUsage
) -> EditedTracks:
    """Let the model tell those tracks in fewer words that have no room for what
    is new.
    """
    tracks = [find_track(edited.tracks, edit.name) for edit in edited.too_long.values()]
    names = [track.name for track in tracks if track]
    waiting = [
        n
        for n in begun.numbers.values()
        if begun.records[n].record_id in edited.refused
    ]
    if not names or not waiting:
        return edited
    files = replace(begun.files, tracks=edited.tracks)
    numbers = {alias: n for alias, n in begun.numbers.items() if n in waiting}
    second = replace(begun, files=files, numbers=numbers, narratives=names)
    prompt = f"{load_prompt('topics')}\n{load_prompt('shorten')}"
    question = round_question(second, deps.services.settings.time_zone)
    answer = await deps.runner.ask(TopicRound, prompt, question, usage)
    if answer is None:
        return edited
    named = [(edit, find_track(edited.tracks, edit.name)) for edit in answer.tracks]
    meant = [edit for edit, track in named if track and track.name in names]
    done = apply_edits(edited.tracks, meant, second.shown)
    left = {
        record: why for record, why in edited.refused.items() if record not in done.told
    }
    refused = left | done.refused
    reasons = [
        why
        for why in edited.reasons
        if why not in edited.too_long or why in left.values()
    ]
    told = edited.told | done.told
    return replace(done, told=told, refused=refused, reasons=[*reasons, *done.reasons])


def _finish(
    room: Room, begun: TopicsRound, edited: EditedTracks, state: ExtractionState
) -> list[str]:
    """Store the round, where that may be; returns the names of the tracks that
    changed.
    """
    with room.database.write_transaction() as connection:
        if not may_be_stored(connection, begun.seen, begun.files, state):
            return []
        others = {
            n: times for n, times in begun.refused.items() if n not in begun.taken
        }
        again = {
            n: times
            for n, times in _refusals(begun, edited).items()
            if times < MAX_REFUSALS
        }
        rounds.note_topics(connection, begun.last, others | again)
        return _write(connection, begun, edited.tracks)


def _refusals(begun: TopicsRound, edited: EditedTracks) -> dict[int, int]:
    """For each record whose edits were all refused, in how many rounds."""
    numbers = {begun.records[n].record_id: n for n in begun.numbers.values()}
    refused = [numbers[record] for record in edited.refused]
    return {n: begun.refused.get(n, 0) + 1 for n in refused}


def _put_aside(begun: TopicsRound, edited: EditedTracks) -> list[str]:
    """The reason to report where records are given up as belonging to no track."""
    given_up = [
        n for n, times in _refusals(begun, edited).items() if times >= MAX_REFUSALS
    ]
    if not given_up:
        return []
    return [
        (
            f"{len(given_up)} records belong to no track: {MAX_REFUSALS} rounds could "
            "not "
            "use them"
        )
    ]


def _write(
    connection: Reading, begun: TopicsRound, tracks: dict[str, TopicFile]
) -> list[str]:
    changed = [
        track for name, track in tracks.items() if begun.files.tracks.get(name) != track
    ]
    gone = begun.files.names - {file_name(track) for track in tracks.values()}
    if not changed and not gone:
        return []
    rounds.drop_files(connection, sorted(gone))
    bodies = {file_name(track): render(track) for track in changed}
    index = render_index(list(tracks.values()), begun.files.profile)
    rounds.write_files(connection, bodies | {INDEX: index})
    return [track.name for track in changed]
