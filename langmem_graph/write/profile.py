"""profile: who the user is, in at most 2,000 characters, from the topic tracks (NapMem 5.2).

Written after a round of topics that changed something. An answer that cannot be used leaves the
old profile as it is.
"""

from datetime import UTC, datetime

from langmem_graph.errors import InvalidInputError
from langmem_graph.llm.contracts import ProfileText
from langmem_graph.llm.structured import Usage, load_prompt
from langmem_graph.pyramid.files import INDEX, PROFILE, ProfileFile, render, render_index
from langmem_graph.pyramid.round import validate_round
from langmem_graph.recall.quotes import indented
from langmem_graph.store import files, reading
from langmem_graph.store.room import Room
from langmem_graph.write.state import ExtractionDependencies, WriteState
from langmem_graph.write.topics import Round, read_round, track_line


async def profile(deps: ExtractionDependencies, state: WriteState) -> WriteState:
    """Write the profile anew, when topics have changed."""
    done = dict(state.get("done") or {})
    if not done.get("topics"):
        return {}
    services, usage = deps.services, Usage.of(state.get("usage"))
    begun = await services.in_room(state["user_id"], read_round)
    answer = await deps.asker.ask(
        ProfileText,
        load_prompt("profile"),
        _question(begun),
        usage,
        lambda answer: _problem(begun, answer),
    )
    if answer is not None:
        made = _made(begun, answer)
        await services.in_room(state["user_id"], lambda room: _write(room, begun, made, state))
    return {"usage": usage.as_dict(), "done": done | {"profile": answer is not None}}


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


def _write(room: Room, begun: Round, made: ProfileFile, state: WriteState) -> None:
    index = render_index(list(begun.tracks.values()), made)
    with room.database.writing() as connection:
        if reading.generation(connection) != state["generation"]:
            return  # something was forgotten meanwhile
        files.write_files(connection, {PROFILE: render(made), INDEX: index})
