"""profile: say who the user is, in at most 2,000 characters, from the topic tracks (NapMem 5.2).

The step runs after a topic round that changed a track. An unusable answer leaves the old profile as
it is.
"""

from datetime import UTC, datetime

from langmem_graph.errors import InvalidInputError
from langmem_graph.extraction.state import ExtractionDependencies, ExtractionState, usage_of
from langmem_graph.extraction.update_topics import Round, is_unchanged, read_round, track_line
from langmem_graph.llm.answer_schemas import ProfileText
from langmem_graph.llm.structured_calls import load_prompt
from langmem_graph.retrieval.quoted_context import indented
from langmem_graph.runtime import StepRun
from langmem_graph.storage import pending_messages, topic_file_rows
from langmem_graph.storage.user_room import Room
from langmem_graph.topics.track_and_profile_files import (
    INDEX,
    PROFILE,
    ProfileFile,
    render,
    render_index,
)
from langmem_graph.topics.validate_round import validate_round


async def profile(
    deps: ExtractionDependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Write the profile anew."""
    services, usage = deps.services, usage_of(state)
    begun = await services.in_room(run.user, read_round)
    prompt, question = load_prompt("profile"), _question(begun)
    answer = await deps.runner.ask(
        ProfileText, prompt, question, usage, lambda answer: _problem(begun, answer)
    )
    if answer is not None:
        written = _profile(begun, answer)
        await services.in_room(run.user, lambda room: _write(room, begun, written, state))
    return {"usage": usage}


def _question(begun: Round) -> str:
    old = begun.profile.text if begun.profile else "none"
    tracks = [track_line(track) for track in begun.tracks.values()]
    return "\n".join(["Old profile:", f"    {indented(old)}", "Topic tracks:", *tracks])


def _profile(begun: Round, answer: ProfileText) -> ProfileFile:
    known = [name for name in dict.fromkeys(answer.topics) if name in begun.tracks]
    return ProfileFile(
        text=answer.text,
        topics=known,
        version=begun.profile.version + 1 if begun.profile else 1,
        updated_at=datetime.now(UTC),
    )


def _problem(begun: Round, answer: ProfileText) -> str | None:
    """Why the answer cannot be used; the model is told once."""
    try:
        written = _profile(begun, answer)
    except InvalidInputError as error:
        return str(error)
    tracks = list(begun.tracks.values())
    checked = validate_round(tracks, written, begun.active, begun.superseded_by)
    return "; ".join(checked.problems) or None


def _write(room: Room, begun: Round, written: ProfileFile, state: ExtractionState) -> None:
    """Store the profile, unless something was forgotten or another run has written topics since.

    The run that writes topics last reads its round for the profile after that, and so makes the
    profile from all of them.
    """
    index = render_index(list(begun.tracks.values()), written)
    with room.database.write_transaction() as connection:
        if pending_messages.generation(connection) != state["generation"]:
            return
        if is_unchanged(connection, begun):
            topic_file_rows.write_files(connection, {PROFILE: render(written), INDEX: index})
