"""profile: say who the user is, in at most 2,000 characters (NapMem 5.2).

It is written anew from the old one, the tracks and the lasting records, once in a round
and only where one of these has changed. An unusable answer leaves it as it is.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from langmem_graph.errors import InvalidInputError
from langmem_graph.extraction.plan_round import MIN_CHANGED
from langmem_graph.extraction.state import Dependencies, ExtractionState, usage_of
from langmem_graph.extraction.topic_round import (
    StoredFiles,
    may_be_stored,
    stored_files,
    track_line,
)
from langmem_graph.llm.answer_schemas import ProfileText
from langmem_graph.llm.structured_calls import load_prompt
from langmem_graph.retrieval.quoted_context import as_data, indented
from langmem_graph.rooms import shared_name
from langmem_graph.runtime import StepRun
from langmem_graph.schedule.times import zone_of
from langmem_graph.schemas import Record
from langmem_graph.storage import record_queries, rounds
from langmem_graph.storage.reading import EVERYTHING, Reading
from langmem_graph.storage.rounds import ProfileSeen
from langmem_graph.storage.user_room import Room
from langmem_graph.topics.track_and_profile_files import (
    INDEX,
    PROFILE,
    ProfileFile,
    file_name,
    profile_problems,
    render,
    render_index,
)
from langmem_graph.trust import FOREIGN

# lasting records that are shown, the newest; own figure, as are the following
MAX_LASTING = 40
# changed tracks whose whole narrative is shown: those that changed last
MAX_NARRATIVES = 8
# after so many unusable answers it stays as it is until something changes again
MAX_FAILURES = 3


@dataclass(frozen=True)
class ProfileRound:
    """What the profile is written from."""

    files: StoredFiles
    changed: list[str]  # names of the tracks that changed since the profile was written
    # that hold now and say what the user is like or wants, oldest first
    lasting: list[Record]
    topics_seen: int
    before: ProfileSeen
    now: ProfileSeen  # what the ledger will note once the profile is written


async def profile(
    deps: Dependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Write the profile anew, where a track or a lasting record has changed."""
    services = deps.services
    usage = usage_of(state)
    if shared_name(run.user) is not None:  # of several users there is no profile
        return {}
    if deps.runner.is_spent(usage):
        return {"again": True}
    begun = await services.in_room(run.user, _read_round)
    if begun is None:
        return {}
    prompt = load_prompt("profile")
    question = _question(begun, services.settings.time_zone)
    unreachable = usage.unreachable
    answer = await deps.runner.ask(
        ProfileText, prompt, question, usage, lambda answer: _problem(begun, answer)
    )
    if answer is not None or usage.unreachable == unreachable:
        written = _profile(begun, answer) if answer else None
        await services.in_room(
            run.user, lambda room: _finish(room, begun, written, state)
        )
    return {"usage": usage}


def _read_round(room: Room) -> ProfileRound | None:
    """Read what the profile is written from, in one transaction; None where nothing has
    changed.
    """
    with room.database.read_transaction(EVERYTHING) as connection:
        before = rounds.profile_seen(connection)
        written = rounds.tracks_written(connection)
        changed = [one.n for one in rounds.changed_since(connection, before.entry)]
        many = len(changed) >= MIN_CHANGED and rounds.lasting(connection, changed)
        if written == before.tracks and not many:
            return None
        files = stored_files(connection)
        rewritten = {
            name for name, at in written.items() if before.tracks.get(name) != at
        }
        return ProfileRound(
            files=files,
            changed=[
                n for n, track in files.tracks.items() if file_name(track) in rewritten
            ],
            lasting=_lasting(connection),
            topics_seen=rounds.topics_seen(connection),
            before=before,
            now=ProfileSeen(rounds.last_entry(connection), written),
        )


def _lasting(connection: Reading) -> list[Record]:
    """The newest lasting records that hold now and are settled, oldest first."""
    every = rounds.lasting(connection, record_queries.all_numbers(connection, None))
    holding = record_queries.current(connection, every)
    newest = [n for n in every if n in holding][-MAX_LASTING:]
    records = record_queries.records_by_number(connection, newest)
    return [records[n] for n in newest if is_settled(records[n])]


def is_settled(record: Record) -> bool:
    """Whether it may be told as what the user is like: no draft, and no tool's or
    import's word.
    """
    return record.confirmation != "draft" and record.origin not in FOREIGN


def _question(begun: ProfileRound, zone: str | None) -> str:
    today = datetime.now(zone_of(zone))
    old = begun.files.profile.text if begun.files.profile else "none"
    told = sorted(begun.changed, key=lambda name: begun.files.tracks[name].updated_at)
    narratives = told[-MAX_NARRATIVES:]
    tracks = list[str]()
    for track in begun.files.tracks.values():
        is_told = track.name in narratives
        tracks.append(
            track_line(track)
            + (f"\n    {indented(track.narrative)}" if is_told else "")
        )
    lasting = [
        f"- {r.said_at:%Y-%m-%d} ({r.kind}) {as_data(r.text)}" for r in begun.lasting
    ]
    return "\n".join(
        [
            f"Today: {today:%A %Y-%m-%d}",
            *("Old profile:", f"    {indented(old)}"),
            *("Topic tracks:", *(tracks or ["- none"])),
            *("Lasting records:", *(lasting or ["- none"])),
        ]
    )


def _profile(begun: ProfileRound, answer: ProfileText) -> ProfileFile:
    return ProfileFile(
        text=answer.text,
        topics=[
            name for name in dict.fromkeys(answer.topics) if name in begun.files.tracks
        ],
        version=begun.files.profile.version + 1 if begun.files.profile else 1,
        updated_at=datetime.now(UTC),
    )


def _problem(begun: ProfileRound, answer: ProfileText) -> str | None:
    """Why the answer cannot be used; the model is told once."""
    if not answer.text.strip():
        return "the profile is empty; write what is known of the user"
    try:
        written = _profile(begun, answer)
    except InvalidInputError as error:
        return str(error)
    return "; ".join(profile_problems(written, begun.files.tracks)) or None


def _finish(
    room: Room, begun: ProfileRound, written: ProfileFile | None, state: ExtractionState
) -> None:
    """Store the profile; None, an unusable answer, is counted."""
    with room.database.write_transaction() as connection:
        if not may_be_stored(connection, begun.topics_seen, begun.files, state):
            return
        seen = begun.now
        if written is not None:
            index = render_index(list(begun.files.tracks.values()), written)
            rounds.write_files(connection, {PROFILE: render(written), INDEX: index})
        elif (failures := begun.before.failures + 1) < MAX_FAILURES:
            seen = replace(begun.before, failures=failures)
        rounds.note_profile(connection, seen)
