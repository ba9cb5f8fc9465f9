"""What one round of topics reads from the ledger, and the text in which the model sees
it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from langmem_graph.extraction.batch_view import about
from langmem_graph.extraction.edit_tracks import MAX_NARRATIVE, ShownToModel
from langmem_graph.extraction.plan_round import MAX_WAITING
from langmem_graph.extraction.state import ExtractionState
from langmem_graph.ids_and_times import in_zone
from langmem_graph.retrieval.quoted_context import as_data, indented
from langmem_graph.schedule.times import zone_of
from langmem_graph.schemas import NO_LONGER, Record, RecordChange
from langmem_graph.storage import (
    pending_messages,
    record_changes,
    record_queries,
    rounds,
    vector_rows,
)
from langmem_graph.storage.reading import EVERYTHING, Reading
from langmem_graph.storage.tables import RECORDS
from langmem_graph.storage.user_room import Room
from langmem_graph.topics.track_and_profile_files import (
    INDEX,
    PROFILE,
    ProfileFile,
    TopicFile,
    parse,
)
from langmem_graph.trust import FOREIGN

# tracks whose narrative one call shows; own figure, as are the following
MAX_NARRATIVES = 6
# characters of a narrative from which the model is told how long it is
NEARLY_FULL = 1_500
# of a track's evidence, the latest, whose mean says what it is about
VECTORS_OF_TRACK = 50
TAKEN_BACK = ("discarded", "hidden")
_ENDED = {"ended": "ended", "cancels": "cancelled", "completes": "done"}
_ENDED |= {"reschedules": "moved", "replaces": "replaced"}


@dataclass(frozen=True)
class StoredFiles:
    """The tracks and the profile, as they are stored."""

    # by name, with the evidence that still counts; none without any
    tracks: dict[str, TopicFile]
    names: frozenset[str]  # of the files of all tracks, those without evidence included
    profile: ProfileFile | None
    versions: dict[str, int]  # of the stored files, the index included
    evidence: dict[str, int]  # numbers of the records that the tracks cite, by id
    known: frozenset[str]  # ids of those of them that hold or once held


@dataclass(frozen=True)
class TopicsRound:
    """What a round of topics starts from."""

    files: StoredFiles
    numbers: dict[str, int]  # by alias, the numbers of the records that have changed
    records: dict[int, Record]
    changes: Mapping[int, Sequence[RecordChange]]
    # names of the tracks whose narrative is shown, the nearest first
    narratives: list[str]
    seen: int  # the checkpoint before the round
    last: int  # and after it
    # numbers of the records of this round, also where nothing is told
    taken: Collection[int]
    # records that wait since an edit was refused, and how often
    refused: dict[int, int]
    rest: int  # how many changed records this round leaves for the next one

    @property
    def shown(self) -> ShownToModel:
        """What the model may build on."""
        ids = {alias: self.records[n].record_id for alias, n in self.numbers.items()}
        taken_back = {
            r.record_id for r in self.records.values() if r.status in TAKEN_BACK
        }
        known = (self.files.known | set(ids.values())) - taken_back
        return ShownToModel(ids, frozenset(self.narratives), known)


def stored_files(connection: Reading) -> StoredFiles:
    """Read the tracks and the profile; a record that was taken back is no evidence any
    more.
    """
    held = rounds.all_files(connection)
    stored = [parse(file.body) for name, file in held.items() if name != INDEX]
    tracks = [file for file in stored if isinstance(file, TopicFile)]
    cited = [record for track in tracks for record in track.evidence]
    numbers = record_queries.numbers_of(connection, cited)
    facts = record_queries.facts_of(connection, numbers.values())
    counting = {n for n, one in facts.items() if one.status not in TAKEN_BACK}
    known = frozenset(record for record, n in numbers.items() if n in counting)
    kept = [
        track.model_copy(update={"evidence": [r for r in track.evidence if r in known]})
        for track in tracks
    ]
    return StoredFiles(
        tracks={track.name: track for track in kept if track.evidence},
        names=frozenset(held) - {INDEX, PROFILE},
        profile=next((file for file in stored if isinstance(file, ProfileFile)), None),
        versions={name: file.version for name, file in held.items()},
        evidence=numbers,
        known=known,
    )


def read_round(room: Room) -> TopicsRound:
    """Read what the next round starts from, in one transaction."""
    with room.database.read_transaction(EVERYTHING) as connection:
        files = stored_files(connection)
        seen = rounds.topics_seen(connection)
        changed = rounds.changed_since(connection, seen)
        refused = rounds.refused_records(connection)
        taken = changed[:MAX_WAITING]
        numbers = list(dict.fromkeys([*(one.n for one in taken), *refused]))[
            :MAX_WAITING
        ]
        records = record_queries.records_by_number(connection, numbers)
        cited = set(files.evidence.values())
        # a record that was taken back matters only to the tracks that tell it
        told = [
            n
            for n in numbers
            if n in records and (n in cited or records[n].status not in TAKEN_BACK)
        ]
        records = {n: records[n] for n in told}
        return TopicsRound(
            files=files,
            numbers={f"r{place}": n for place, n in enumerate(told, 1)},
            records=records,
            changes=record_changes.changes_of(connection, told),
            narratives=_nearest_tracks(connection, files, records)[:MAX_NARRATIVES],
            seen=seen,
            last=taken[-1].entry if taken else seen,
            taken=numbers,
            refused=refused,
            rest=len(changed) - len(taken),
        )


def may_be_stored(
    connection: Reading, seen: int, files: StoredFiles, state: ExtractionState
) -> bool:
    """False where something was forgotten, or another run has stored files, since
    `seen`.
    """
    return (
        pending_messages.generation(connection) == state["generation"]
        and rounds.topics_seen(connection) == seen
        and rounds.versions(connection) == files.versions
    )


def _nearest_tracks(
    connection: Reading, files: StoredFiles, records: Mapping[int, Record]
) -> list[str]:
    """Names of all tracks, those that the records belong to first.

    A record belongs to a track that cites it, or what it replaced; else to one that
    cites records of the same subject and attribute; else to one that is about something
    similar.
    """
    cited = {
        name: [files.evidence[record] for record in track.evidence]
        for name, track in files.tracks.items()
    }
    related = {
        one
        for r in records.values()
        for one in (r.record_id, *r.supersedes, *r.superseded_by)
    }
    every = {n for numbers in cited.values() for n in numbers}
    matter_of = record_queries.subjects_and_attributes(
        connection, every | records.keys()
    )
    wanted = [matter_of[n] for n in records if n in matter_of]
    cosines = _cosines(connection, cited, list(records))

    def nearness(name: str) -> tuple[int, int, float]:
        matters = {matter_of[n] for n in cited[name] if n in matter_of}
        same = sum(one in matters for one in wanted)
        return (
            len(related.intersection(files.tracks[name].evidence)),
            same,
            cosines[name],
        )

    return sorted(files.tracks, key=nearness, reverse=True)


def _cosines(
    connection: Reading, cited: Mapping[str, list[int]], items: Collection[int]
) -> dict[str, float]:
    """For each track, how similar the most similar of these records is to its
    evidence.
    """
    new = vector_rows.vectors_of(connection, items, RECORDS).matrix
    cosines = dict.fromkeys(cited, 0.0)
    for name, numbers in cited.items():
        rows = vector_rows.vectors_of(
            connection, numbers[-VECTORS_OF_TRACK:], RECORDS
        ).matrix
        if len(new) and len(rows):
            mean = rows.sum(axis=0)
            cosines[name] = float(
                (new @ mean).max() / max(float(np.linalg.norm(mean)), 1e-9)
            )
    return cosines


def round_question(begun: TopicsRound, zone: str | None) -> str:
    """The user message of a round's call."""
    tracks = [track_line(track) for track in begun.files.tracks.values()]
    narratives = [_narrative(begun.files.tracks[name]) for name in begun.narratives]
    aliases = {begun.records[n].record_id: alias for alias, n in begun.numbers.items()}
    cited = set(begun.files.evidence.values())
    lines = list[str]()
    for alias, n in begun.numbers.items():
        record = begun.records[n]
        changes = begun.changes.get(n, ())
        state = _state(record, changes, n in cited, aliases, zone)
        lines.append(f"{alias}: {_record_line(record, zone)} - {state}")
    return "\n".join(
        ["Tracks:", *(tracks or ["- none"]), *narratives, "Changed records:", *lines]
    )


def track_line(track: TopicFile) -> str:
    """The line of a prompt that names and summarises a track."""
    return f"- {track.name}: {as_data(track.title)}: {as_data(track.summary)}"


def _narrative(track: TopicFile) -> str:
    size = len(track.narrative)
    note = f" ({size:,} of {MAX_NARRATIVE:,} characters)" if size > NEARLY_FULL else ""
    return f"## {track.name}{note}\n    {indented(track.narrative)}"


def _record_line(record: Record, zone: str | None) -> str:
    draft = "; only considered" if record.confirmation == "draft" else ""
    draft += f"; from: {record.origin}" if record.origin in FOREIGN else ""
    matter = about(record.subject, record.attribute)
    said = in_zone(record.said_at, zone_of(zone))
    return f"{said:%Y-%m-%d} ({record.kind}; {matter}{draft}) {as_data(record.text)}"


def _state(
    record: Record,
    changes: Sequence[RecordChange],
    is_cited: bool,
    aliases: Mapping[str, str],
    zone: str | None,
) -> str:
    """What has become of a record since the last round."""
    if record.status in TAKEN_BACK:
        return "was taken back: it never counted"
    if record.status != "superseded":
        return "has changed; it holds now" if is_cited else "new"
    change = next((one for one in reversed(changes) if one.relation in NO_LONGER), None)
    quote = f" ({as_data(change.quote)})" if change and change.quote else ""
    newer = _newer(record, change, aliases)
    if change and change.relation == "corrects":
        return f"was never right: corrected{newer}{quote}"
    since = change.since if change and change.since else record.valid_to
    day = f" since {in_zone(since, zone_of(zone)):%Y-%m-%d}" if since else ""
    how = _ENDED[change.relation] if change else "replaced" if newer else "ended"
    return f"no longer holds{day}: {how}{newer}{quote}"


def _newer(
    record: Record, change: RecordChange | None, aliases: Mapping[str, str]
) -> str:
    """What took the record's place: its alias where it is shown, else its text."""
    successor = (change.by_record_id if change else None) or next(
        iter(record.superseded_by), None
    )
    if successor is None:
        return ""
    if successor in aliases:
        return f" by {aliases[successor]}"
    return (
        f" by {as_data(change.by_text)}"
        if change and change.by_text
        else " by another record"
    )
