"""An interrupt from the keyboard at every statement of every public method.

What comes after it works: nothing that the interrupted call held stays locked or open.
"""

import gc
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from langmem_graph import Memory, Reading
from langmem_graph.shared_memory import SharedMemory
from langmem_graph.testing import ScriptedChatModel
from langmem_graph.user_memory import UserMemory
from tests.conftest import said
from tests.storage.test_interrupts import interrupted_at, places
from tests.support.settings import nested

pytestmark = [
    pytest.mark.long,
    # An interrupt may come after a coroutine was made and before it begins: it holds
    # nothing yet.
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
]
SETTINGS = nested(storage__busy_timeout_seconds=1.0)
MOST = 40  # places of one method; most have fewer statements in the calling thread


class Allergy(BaseModel):
    """An allergy of the user's."""

    to: str


SCHEMA = {
    "title": "act",
    "type": "object",
    "properties": {"x": {"type": "string"}},
    "required": ["x"],
}
OF_USER: dict[str, Callable[[Any], Any]] = {
    "add": lambda user: user.add(said("one more"), session_id="s"),
    "add_records": lambda user: user.add_records(
        {"text": "A fact.", "source_message_ids": ["m1"]}
    ),
    "as_retriever": lambda user: user.as_retriever(),
    "calls": lambda user: user.calls(),
    "changes": lambda user: user.changes("r1"),
    "compare": lambda user: user.compare("2026-01-01", "2026-02-01"),
    "conversation": lambda user: user.conversation("s"),
    "correct": lambda user: user.correct("r1", "I like tea."),
    "doctor": lambda user: user.doctor(sample=1),
    "drain": lambda user: user.drain(1.0),
    "erase": lambda user: user.erase(),
    "expire": lambda user: user.expire(),
    "export": lambda user: user.export(),
    "export_records": lambda user: user.export_records(),
    "files": lambda user: user.files(),
    "flush": lambda user: user.flush(),
    "flush_forecast": lambda user: user.flush_forecast(),
    "flush_soon": lambda user: user.flush_soon(),
    "forget": lambda user: user.forget(message="no such message"),
    "forget_preview": lambda user: user.forget_preview(message="m1"),
    "get_conversation": lambda user: user.get_conversation("s"),
    "get_records": lambda user: user.get_records(["r1"]),
    "ground": lambda user: user.ground(SCHEMA, "say hello"),
    "hide": lambda user: user.hide("r1"),
    "history": lambda user: user.history("r1"),
    "keep_days": lambda user: user.keep_days(messages=1_000_000),
    "made_of": lambda user: user.made_of("m1"),
    "neighbours": lambda user: user.neighbours("r1"),
    "overview": lambda user: user.overview(),
    "read_file": lambda user: user.read_file("profile.md"),
    "rebuild": lambda user: user.rebuild(),
    "recall": lambda user: user.recall("what do I like"),
    "records": lambda user: user.records(),
    "records_of": lambda user: user.records_of(Allergy),
    "remember": lambda user: user.remember("I like juice."),
    "schedule": lambda user: user.schedule("2026-01-01", "2026-02-01"),
    "search_conversation": lambda user: user.search_conversation("coffee"),
    "search_records": lambda user: user.search_records("coffee"),
    "sessions": lambda user: user.sessions(),
    "undo": lambda user: user.undo(message="m1"),
    "unhide": lambda user: user.unhide("r1"),
    "usage": lambda user: user.usage(),
}
OF_MEMORY: dict[str, Callable[[Memory], Any]] = {
    "expire": lambda memory: memory.expire(),
    "keep_days": lambda memory: memory.keep_days(messages=1_000_000),
    "shared": lambda memory: memory.shared("team", as_user="a"),
    "usage": lambda memory: memory.usage(),
    "user": lambda memory: memory.user("a"),
    "users": lambda memory: memory.users(),
}
NOT_TRIED = {"close", "from_environment"}  # closing has trials of its own


def methods_of(public: type) -> set[str]:
    """Names of the synchronous public methods."""
    return {
        name
        for name, member in inspect.getmembers(public, callable)
        if not name.startswith("_")
        and not inspect.iscoroutinefunction(member)
        and name not in NOT_TRIED
    }


def test_every_public_method_is_tried() -> None:
    assert methods_of(UserMemory) - set(OF_USER) == set()
    assert methods_of(Memory) - set(OF_MEMORY) == set()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    model = ScriptedChatModel(answers={"Extraction": {"memories": []}})
    with Memory(
        tmp_path / "m",
        embeddings="hash",
        model=model,
        settings=SETTINGS,
        authorize=lambda *_: True,
        reading=Reading(schemas=[Allergy]),
    ) as opened:
        fill(opened.user("a"))
        fill(opened.shared("team", as_user="a"))
        yield opened


def fill(user: UserMemory | SharedMemory) -> None:
    user.add(said("I like coffee.", id="m1"), session_id="s")
    record = {"record_id": "r1", "text": "The user likes coffee."}
    user.add_records({**record, "source_message_ids": ["m1"]})


def attempt(work: Callable[[], Any]) -> None:
    """Call it; that there is nothing to undo is no fault here."""
    try:
        work()
    except Exception as error:  # noqa: BLE001
        assert "langmem_graph" in type(error).__module__, error


def interrupt_everywhere(work: Callable[[], Any], check: Callable[[], Any]) -> None:
    gc.disable()
    kept = list[BaseException]()  # as a notebook keeps them, with all their frames
    for place in places(lambda: attempt(work), MOST):
        try:
            with interrupted_at(place):
                attempt(work)
        except KeyboardInterrupt as problem:
            kept.append(problem)
        check()
    gc.enable()
    assert kept


@pytest.mark.parametrize("name", sorted(OF_USER))
def test_a_method_of_a_user(name: str, memory: Memory) -> None:
    user = memory.user("a")

    def check() -> None:
        user.add(said("after it"), session_id="s")
        # an interrupted `erase` goes on to its end, after this perhaps
        assert "team" in [summary.user_id for summary in memory.users()]

    interrupt_everywhere(lambda: OF_USER[name](user), check)


@pytest.mark.parametrize("name", sorted(OF_MEMORY))
def test_a_method_of_a_memory(name: str, memory: Memory) -> None:
    def check() -> None:
        memory.user("a").add(said("after it"), session_id="s")
        assert "a" in [summary.user_id for summary in memory.users()]

    interrupt_everywhere(lambda: OF_MEMORY[name](memory), check)


@pytest.mark.parametrize("name", ["add", "recall", "records_of", "forget_preview"])
def test_a_method_of_a_shared_room(name: str, memory: Memory) -> None:
    room = memory.shared("team", as_user="a")

    def check() -> None:
        room.add(said("after it"), session_id="s")

    interrupt_everywhere(lambda: OF_USER[name](room), check)
