"""A process that writes memory until it is killed; what it was promised goes to a file at once."""

import os
import re
import signal
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from langmem_graph.memory import Memory
from langmem_graph.settings import ExtractionSettings, Settings, StorageSettings
from tests.support.models import AnswersBySchema
from tests.support.writing import change, lines_of, memories

SETTINGS = Settings(
    storage=StorageSettings(index_batch=4, embed_batch=4),
    extraction=ExtractionSettings(debounce_seconds=0.0),
)
POINTS = """
    storage.add_messages:_insert_messages
    storage.add_messages:_index_words
    storage.add_messages:_not_yet_embedded
    storage.outbox_rows:claim
    storage.vector_rows:store_vectors
    storage.outbox_rows:finish
    storage.chroma_index:VectorIndex.upsert
    storage.chroma_index:VectorIndex.delete
    storage.chroma_index:blank_unused
    storage.outbox_worker:_index_batch
    storage.pending_messages:claim
    extraction.extract_records:read_candidate
    extraction.reconcile_records:unseen
    storage.record_writes:insert_record
    storage.record_effects:supersede
    storage.record_effects:end_record
    storage.record_writes:add_effect
    storage.record_effects:refold
    storage.record_writes:add_link
    storage.pending_messages:mark_read
    extraction.commit_records:_commit
    storage.graph_neighbours:join
    storage.rounds:write_files
    extraction.update_topics:_write
    storage.deletion:forget_records
    storage.deletion:drop_layer
    storage.full_text:optimize_words
    storage.user_room:LedgerFolder.renew_index
    storage.forgetting:note_deletion
    storage.outbox_rows:index_everything_again
    storage.sqlite_database:Database.checkpoint
""".split()
"""Where it can be killed: before or after any call of these."""


def text_of(n: int, part: int) -> str:
    """What message `n.part` says; every third user message corrects where the user lives."""
    if part == 0:
        return (
            f"I moved to place{n}."
            if n % 3 == 0
            else f"My note number {n} is about thing{n}."
        )
    return f"I see, {n} it is." if part == 1 else f"And there is more{n} to it."


def messages_of(n: int) -> list[dict[str, Any]]:
    """One call's messages."""
    roles = ("user", "assistant", "user")
    return [
        {"role": role, "content": text_of(n, part), "id": f"{n}.{part}"}
        for part, role in enumerate(roles)
    ]


def scripted_model() -> AnswersBySchema:
    """A record of every user message, and corrections of the user's home."""

    def extract(question: str) -> dict[str, Any]:
        rows, changes = list[dict[str, Any]](), list[dict[str, Any]]()
        for alias, (speaker, said) in lines_of(question).items():
            if speaker == "user" and "moved to" in said:
                lives = f"The user lives in {said.split()[-1]}"
                changes += [
                    change(older, "replaces", said, message=alias, by=len(rows))
                    for older in re.findall(
                        r"^(n\d+) .*lives in", question, re.MULTILINE
                    )
                ]
                rows.append({"text": lives, "sources": [alias], "attribute": "home"})
            elif speaker == "user":
                rows.append(
                    {
                        "text": f"Said: {said}",
                        "sources": [alias],
                        "attribute": said[:40],
                    }
                )
        return memories(*rows, changes=changes[-4:])

    def gather(question: str) -> dict[str, Any]:
        new = question.split("Changed records:\n")[1].splitlines()
        track = {
            "name": "all",
            "title": "All",
            "summary": "All.",
            "narrative": "All there is.",
        }
        return {"tracks": [{**track, "evidence": [line.split(":")[0] for line in new]}]}

    return AnswersBySchema(
        Extraction=extract,
        TopicRound=gather,
        ProfileText={"text": "Moves a lot.", "topics": ["all"]},
    )


def open_memory(path: Path) -> Memory:
    """As the writer opens it."""
    return Memory(path, model=scripted_model(), embeddings="hash", settings=SETTINGS)


def write(path: str, promises: str, point: str | None, call: int, before: bool) -> None:
    """Write for a while; killed at the given call of a function, or from outside."""
    told = os.open(promises, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def tell(*words: str) -> None:
        os.write(told, (" ".join(words) + "\n").encode())

    memory = open_memory(Path(path))
    user = memory.user("u")
    if point:
        kill_at(point, call, before)
    tell("ready")
    for n in range(40):
        report = user.add(messages_of(n), session_id=f"s{n // 7}")
        tell("stored", *report.stored)
        if n % 2:
            tell("read", str(user.flush().pending))
        if n % 5 == 4:
            tell("forgetting", f"{n - 3}.0")
            user.forget(message=f"{n - 3}.0")
            tell("forgot", f"{n - 3}.0")
    memory.close()


def kill_at(point: str, call: int, before: bool) -> None:
    """Kill this process at a call of a function."""
    module, _, name = point.partition(":")
    owner: Any = import_module(f"langmem_graph.{module}")
    *outer, attribute = name.split(".")
    for one in outer:
        owner = getattr(owner, one)
    setattr(owner, attribute, _deadly(getattr(owner, attribute), call, before))


def _deadly(
    function: Callable[..., Any], call: int, before: bool
) -> Callable[..., Any]:
    calls = 0

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call and before:
            os.kill(os.getpid(), signal.SIGKILL)
        done = function(*args, **options)
        if calls == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    return counted
