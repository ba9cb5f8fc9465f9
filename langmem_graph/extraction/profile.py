"""profile: who the user is, in at most 2,000 characters, from the topic tracks (NapMem 5.2).

Written after a round of topics that changed something. An answer that cannot be used leaves the
old profile as it is.
"""

from datetime import UTC, datetime

from langmem_graph.errors import InvalidInputError
from langmem_graph.extraction.state import ExtractionDependencies, ExtractionState, usage_of
from langmem_graph.extraction.topics import Round, is_unchanged, read_round, track_line
from langmem_graph.llm.answer_schemas import ProfileText
from langmem_graph.llm.structured_calls import load_prompt
from langmem_graph.retrieval.formatting import indented
from langmem_graph.runtime import StepRun
from langmem_graph.storage import extraction_queue, files
from langmem_graph.storage.room import Room
from langmem_graph.topics.files import INDEX, PROFILE, ProfileFile, render, render_index
from langmem_graph.topics.validation import validate_round


async def profile(
    deps: ExtractionDependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Write the profile anew, when topics have changed."""
    services, usage = deps.services, usage_of(state)
    begun = await services.in_room(run.user, read_round)
    answer = await deps.runner.ask(
        ProfileText,
        load_prompt("profile"),
        _question(begun),
        usage,
        lambda answer: _problem(begun, answer),
    )
    if answer is not None:
        made = _made(begun, answer)
        await services.in_room(run.user, lambda room: _write(room, begun, made, state))
    return {"usage": usage}


def _question(begun: Round) -> str:
    old = begun.profile.text if begun.profile else "none"
    tracks = [track_line(track) for track in begun.tracks.values()]
    return "\n".join(["Old profile:", f"    {indented(old)}", "Topic tracks:", *tracks])


def _made(begun: Round, answer: ProfileText) -> ProfileFile:
    known = [name for name in dict.fromkeys(answer.topics) if name in begun.tracks]
    return ProfileFile(
        text=answer.text,
        topics=known,
        version=begun.profile.version + 1 if begun.profile else 1,
        updated_at=datetime.now(UTC),
    )


def _problem(begun: Round, answer: ProfileText) -> str | None:
    try:
        made = _made(begun, answer)
    except InvalidInputError as error:
        return str(error)
    tracks = list(begun.tracks.values())
    checked = validate_round(tracks, made, begun.active, begun.superseded_by)
    return "; ".join(checked.problems) or None


def _write(room: Room, begun: Round, made: ProfileFile, state: ExtractionState) -> None:
    """Write it, unless something was forgotten or another run has written topics meanwhile.

    The run that was the last to write topics reads the round after that, and so its profile is
    made from all of them.
    """
    index = render_index(list(begun.tracks.values()), made)
    with room.database.write_transaction() as connection:
        if extraction_queue.generation(connection) != state["generation"]:
            return
        if not is_unchanged(connection, begun):
            return
        files.write_files(connection, {PROFILE: render(made), INDEX: index})
