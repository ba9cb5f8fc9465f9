"""How a model's edits change the topic tracks: one by one, so that a bad one costs no
good one.

An edit may add to any track; it tells anew or absorbs only those whose narrative was
shown.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime

from langmem_graph.errors import InvalidInputError
from langmem_graph.llm.answer_schemas import TrackEdit
from langmem_graph.topics.track_and_profile_files import MAX_TOPICS, TopicFile, slug

MAX_NARRATIVE = 2_000  # characters of a narrative
# a narrative told anew that is shorter than this share of the old one is refused
MIN_SHARE = 0.5
# records of one track's evidence; above that the oldest are no longer named
MAX_EVIDENCE = 1_000


class NarrativeTooLongError(InvalidInputError):
    """With what is to be added, the narrative would be longer than it may be."""


@dataclass(frozen=True)
class ShownToModel:
    """What the model saw, and so may build on."""

    records: Mapping[str, str]  # ids of records by alias
    narratives: Set[str]  # names of the tracks whose narrative was shown
    known: Set[str]  # ids of records that may be evidence: those that hold or once held


@dataclass
class EditedTracks:
    """The tracks after a model's edits, and what became of the records."""

    tracks: dict[str, TopicFile]
    # ids of the records that the edits made rest on
    told: set[str] = field(default_factory=set)
    # by record id, why its edit was not made
    refused: dict[str, str] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)  # why edits could not be made
    # by reason, for a long narrative
    too_long: dict[str, TrackEdit] = field(default_factory=dict)


def apply_edits(
    tracks: Mapping[str, TopicFile], edits: Sequence[TrackEdit], shown: ShownToModel
) -> EditedTracks:
    """Make the edits that can be made; those that merge tracks come first, as they free
    a place.
    """
    done = EditedTracks(dict(tracks))
    for edit in sorted(edits, key=lambda edit: not edit.absorbs):
        aliases = dict.fromkeys(edit.evidence)
        rests_on = [shown.records[alias] for alias in aliases if alias in shown.records]
        try:
            done.tracks = _after(done.tracks, edit, rests_on, shown)
        except InvalidInputError as problem:
            reason = f"Track {edit.name!r} is not changed: {problem}"
            done.reasons.append(reason)
            done.refused |= dict.fromkeys(rests_on, reason)
            if isinstance(problem, NarrativeTooLongError):
                done.too_long[reason] = edit
        else:
            done.told.update(rests_on)
    done.refused = {
        record: why for record, why in done.refused.items() if record not in done.told
    }
    return done


def find_track(tracks: Mapping[str, TopicFile], name: str) -> TopicFile | None:
    """The track that a model means by a name."""
    return tracks.get(name) or tracks.get(slug(name))


def _after(
    tracks: dict[str, TopicFile],
    edit: TrackEdit,
    rests_on: list[str],
    shown: ShownToModel,
) -> dict[str, TopicFile]:
    """The tracks after one edit; InvalidInputError says why it cannot be made."""
    old = find_track(tracks, edit.name or edit.title)
    named = [find_track(tracks, name) for name in edit.absorbs]
    absorbed = list(
        {track.name: track for track in named if track and track is not old}.values()
    )
    if not rests_on and not absorbed:
        raise InvalidInputError("it names no record that was shown")
    new = _edited(edit, old, absorbed, rests_on, shown)
    gone = {track.name for track in absorbed}
    after = {name: track for name, track in tracks.items() if name not in gone} | {
        new.name: new
    }
    if len(after) > MAX_TOPICS:
        raise InvalidInputError(
            f"{len(after)} topics, at most {MAX_TOPICS}: merge related ones"
        )
    if not new.evidence:
        raise InvalidInputError("no evidence; every topic rests on records")
    return after


def _edited(
    edit: TrackEdit,
    old: TopicFile | None,
    absorbed: list[TopicFile],
    rests_on: list[str],
    shown: ShownToModel,
) -> TopicFile:
    before = [
        record for track in (old, *absorbed) if track for record in track.evidence
    ]
    added = [record for record in rests_on if record in shown.known]
    title = edit.title.strip()
    if old is not None and (not title or old.name not in shown.narratives):
        title = old.title
    return TopicFile(
        name=old.name if old else slug(edit.name or edit.title),
        title=title or edit.name,
        summary=edit.summary or (old.summary if old else ""),
        narrative=_narrative(edit, old, absorbed, shown),
        evidence=list(dict.fromkeys([*before, *added]))[-MAX_EVIDENCE:],
        version=old.version + 1 if old else 1,
        updated_at=datetime.now(UTC),
    )


def _narrative(
    edit: TrackEdit,
    old: TopicFile | None,
    absorbed: list[TopicFile],
    shown: ShownToModel,
) -> str:
    """The track's narrative: told anew, or the old one with what is to be added."""
    retold = [track for track in (old, *absorbed) if track]
    unseen = [track.name for track in retold if track.name not in shown.narratives]
    anew = edit.narrative.strip()
    more = edit.append.strip()
    if absorbed and (unseen or not anew):
        raise InvalidInputError(
            "it absorbs tracks without a narrative of all of them, each shown"
        )
    if unseen and anew and not more:
        raise InvalidInputError("its narrative was not shown: append to it")
    if anew and not unseen:
        longest = max((len(track.narrative) for track in retold), default=0)
        if len(anew) < MIN_SHARE * longest:
            raise InvalidInputError("the narrative drops more than it keeps")
        text = anew
    else:
        text = old.narrative if old else ""
    whole = f"{text}\n{more}".strip() if more not in text else text
    if len(whole) > MAX_NARRATIVE:
        raise NarrativeTooLongError(
            f"its narrative would have {len(whole):,} characters"
        )
    return whole
