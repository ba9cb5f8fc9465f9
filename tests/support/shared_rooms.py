"""Shared rooms whose texts say where they are from, and an application that answers anything."""

import asyncio
import json
import random
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from langmem_graph.errors import RoomRefusedError
from langmem_graph.graphs import create_grounding_graph, create_recall_graph
from langmem_graph.memory import Memory, UserMemory
from langmem_graph.navigation import NavigationEnv
from langmem_graph.rooms import shared_key
from langmem_graph.settings import ReasoningSettings, Settings
from langmem_graph.storage.graph_neighbours import CAUSAL
from langmem_graph.storage.record_writes import add_link
from langmem_graph.testing import ScriptedChatModel
from langmem_graph.tools import create_memory_tools
from tests.conftest import let_go, said

# two rooms have users' names
USERS, ROOMS = ("ana", "bob", "team"), ("team", "shop", "ana")
ODD: dict[str, Any] = {
    "one": 1, "text": "yes", "none": None, "list": [True], "numpy": np.True_, "type": bool
}  # fmt: skip
MOODS = (
    "yes",
    "yes",
    "later yes",
    "no",
    "later no",
    "raises",
    "later raises",
    "exits",
    *ODD,
)
SETTINGS = Settings(authorize_seconds=0.5)
Key = tuple[str, str, str]


class Application:
    """An `authorize` whose answer is drawn by chance for each question; some never answer."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.moods, self.asked = chance, dict[Key, str](), list[Key]()
        self.released = threading.Event()

    def draw(self, hanging: float = 0.0) -> None:
        keys = [(u, r, a) for u in USERS for r in ROOMS for a in ("read", "write")]
        self.moods = {key: self.chance.choice(MOODS) for key in keys}
        if self.chance.random() < hanging:
            self.moods |= dict.fromkeys(
                keys, self.chance.choice(["hangs", "later hangs"])
            )

    def allows(self, *key: str) -> bool:
        return self.moods[key[0], key[1], key[2]] in ("yes", "later yes")

    def __call__(self, user: str, room: str, action: str) -> Any:
        self.asked.append((user, room, action))
        mood = self.moods[user, room, action]
        if mood.startswith("later"):
            return self.later(mood.removeprefix("later "))
        return self.answer(mood)

    async def later(self, mood: str) -> Any:
        await asyncio.sleep(0)
        if mood == "hangs":
            await asyncio.sleep(30)
        return self.answer(mood)

    def answer(self, mood: str) -> Any:
        if mood == "hangs":
            self.released.wait(30)
        if mood == "raises":
            raise PermissionError("no idea")
        if mood == "exits":
            raise SystemExit
        return ODD.get(mood, mood in ("yes", "hangs"))


@contextmanager
def opening(path: Path) -> Iterator[Callable[..., Memory]]:
    """Opens memories with members: ana and bob in `team`, ana in `shop`."""
    memories: list[Memory] = []

    def members(user: str, room: str, action: str) -> bool:
        return user in {"team": ("ana", "bob"), "shop": ("ana",)}.get(room, ())

    def open_memory(authorize: Any = members, **options: Any) -> Memory:
        memories.append(
            Memory(path, authorize=authorize, **{"embeddings": "hash", **options})
        )
        return memories[-1]

    yield open_memory
    let_go(*memories)


def told(memory: Memory) -> Memory:
    """With one message in `team` and one of ana's own, both with the same id."""
    team = memory.shared("team", as_user="bob")
    team.add([said("we ship the pelicans on Friday", id="m1")], session_id="plans")
    memory.user("ana").add(
        [said("I am afraid of pelicans", id="m1")], session_id="mine"
    )
    return memory


def reasoner() -> ScriptedChatModel:
    """Plans that look along edges for what a meeting brings, and for what speaks against it."""
    risk = {"claim": "It is loud", "examples": ["a piano"]}
    goal = {"atom": "(m:meeting) brings it", "query": "piano", "relation": "causal"}
    plan = {"intent": "act", "sure": False, "subgoals": [goal], "risks": [risk]}
    return ScriptedChatModel(answers={"GoalPlan": plan}, record=False)


def fill(memory: Memory, application: Application) -> None:
    """Each user and each room get messages and a record with a word that is nowhere else."""
    for user in USERS:
        _fill(memory, user, memory.user(user), f"own-{user}")
    for room in ROOMS:
        application.moods = {
            ("bob", room, action): "yes" for action in ("read", "write")
        }
        _fill(
            memory, shared_key(room), memory.shared(room, as_user="bob"), f"room-{room}"
        )


def _fill(memory: Memory, key: str, user: UserMemory, word: str) -> None:
    texts = [f"the meeting of {word} is on day {n}" for n in range(3)]
    # the same ids in all
    rows = [said(text, id=f"m{n}") for n, text in enumerate(texts)]
    user.add(rows, session_id="s")
    fact = {
        "text": f"{word} has meetings",
        "record_id": "r1",
        "source_message_ids": ["m1"],
    }
    user.add_records([fact, {**fact, "text": f"{word} has a piano", "record_id": "r2"}])
    _cause(memory, key)


def _cause(memory: Memory, key: str) -> None:
    """An edge from the first record of a room to the second."""
    with (
        memory._services.room(key) as room,
        room.database.write_transaction() as connection,
    ):
        add_link(connection, 1, 2, CAUSAL, weight=0.9, scorer="t", origin="t")


def _tool(
    memory: Memory, user: str, rooms: Sequence[str], name: str, asked: Any
) -> Any:
    tools = create_memory_tools(memory, user_id=user, shared=rooms)
    return next(one for one in tools if one.name == name).invoke(asked)


def _navigated(
    memory: Memory, user: str, rooms: Sequence[str], name: str, asked: Any
) -> Any:
    env = NavigationEnv(memory, shared=rooms)
    env.reset({"user_id": user, "question": "Which meeting?"})
    return env.step({"name": name, "arguments": asked})


READERS: dict[str, Callable[[Memory, str, Sequence[str]], Any]] = {
    "recall": lambda m, u, r: m.user(u, shared=r).recall(
        "meeting", k=30, max_tokens=4_000
    ),
    "arecall": lambda m, u, r: asyncio.run(
        m.user(u, shared=r).arecall("meeting", k=30, max_tokens=4_000)
    ),
    "reason": lambda m, u, r: m.user(u, shared=r).recall(
        "meeting", k=30, max_tokens=4_000, mode="reason"
    ),
    "a graph": lambda m, u, r: create_recall_graph(
        m, mode="reason", k=30, max_tokens=4_000, user_id=u, shared=r
    ).invoke({"messages": [("user", "meeting")]}),
    "messages": lambda m, u, r: m.user(u, shared=r).search_conversation(
        "meeting", k=30
    ),
    "sessions": lambda m, u, r: m.user(u, shared=r).search_conversation(
        "day", 30, "session"
    ),
    "records": lambda m, u, r: m.user(u, shared=r).search_records("meetings", k=30),
    "ids": lambda m, u, r: m.user(u, shared=r).get_conversation(["m0", "m1"]),
    "record ids": lambda m, u, r: m.user(u, shared=r).get_records("r1"),
    "retriever": lambda m, u, r: (
        m.user(u, shared=r).as_retriever(k=30).invoke("meeting")
    ),
    "a tool": lambda m, u, r: _tool(m, u, r, "get_records", {"record_ids": ["r1"]}),
    "navigation": lambda m, u, r: _navigated(
        m, u, r, "get_records", {"record_ids": ["r1"]}
    ),
}


def check(memory: Memory, application: Application, count: int, hanging: float) -> int:
    """Ask at random; returns how many foreign rows were shown, and checks what has to be seen."""
    chance, foreign, seen = application.chance, 0, 0
    for _ in range(count):
        application.draw(hanging)
        user, rooms = chance.choice(USERS), chance.sample(ROOMS, chance.randint(1, 3))
        read = chance.choice([*READERS])
        shown = plain(READERS[read](memory, user, rooms))
        open_rooms = {room for room in rooms if application.allows(user, room, "read")}
        allowed = {f"own-{user}", *(f"room-{room}" for room in open_rooms)}
        every = {*(f"own-{one}" for one in USERS), *(f"room-{one}" for one in ROOMS)}
        foreign += sum(shown.count(word) for word in every - allowed)
        assert all(word in shown for word in allowed), (read, allowed)
        seen += len(open_rooms)
        foreign += _used_by_one(memory, application, user, chance.choice(ROOMS))
    assert seen > count / 10
    return foreign


def _used_by_one(memory: Memory, application: Application, user: str, room: str) -> int:
    """Read and write a room as one user; 1 for each that was let through though it is refused."""
    shared, through = memory.shared(room, as_user=user), 0
    calls: dict[str, Callable[[], Any]] = {
        "read": lambda: shared.recall("meeting"),
        # changes nothing: no record was made of it
        "write": lambda: shared.undo(message="m0"),
    }
    for action, call in calls.items():
        try:
            call()
            through += not application.allows(user, room, action)
        except RoomRefusedError:
            assert not application.allows(user, room, action)
    return through


def plain(shown: Any) -> str:
    """All that is shown, as text."""
    return json.dumps(shown, default=lambda one: getattr(one, "__dict__", repr(one)))


FLOOD = "The depot floods at high water"


def linked(place: Any) -> Memory:
    """A team's decision whose neighbour by a causal edge is near to no words of a request."""
    risk = {"claim": "It is forbidden", "examples": ["Pelicans travel by barge"]}

    def judged(question: str) -> dict[str, Any]:
        named = re.search(rf"\[?(f\d+)\]?.*{FLOOD}", question)
        return {"against": [{"fact": named[1], "why": "It floods."}] if named else []}

    answers: Any = {
        "GoalPlan": {"intent": "act", "sure": False, "risks": [risk]},
        "Consequences": judged,
    }
    few = ReasoningSettings(
        plan_facts=1, subgoals=1, risk_facts=1, use_semantic_edges=False
    )
    options: Any = {"embeddings": "hash", "model": ScriptedChatModel(answers=answers)}
    options |= {"authorize": lambda *_: True, "settings": Settings(reasoning=few)}
    memory = Memory(place, **options)
    team = memory.shared("team", as_user="bob")
    for n, text in enumerate(["Pelicans travel by barge", FLOOD]):
        team.add([said(f"words {n}", id=f"m{n}")], session_id="s")
        team.add_records(
            {"text": text, "record_id": f"r{n}", "source_message_ids": [f"m{n}"]}
        )
    _cause(memory, shared_key("team"))
    memory.user("ana").add([said("I like tea")], session_id="s")
    return memory


def shown_along_an_edge(memory: Memory) -> Any:
    """What a member is told of an act that the neighbour of the team's decision speaks against."""
    ana = memory.user("ana", shared=["team"])
    found = ana.recall("I like tea", k=1, mode="reason")
    later = asyncio.run(ana.arecall("I like tea", k=1, mode="reason"))
    assert later.context == found.context
    return found


NOTHING = (
    "The shared room 'shpo' holds nothing: check its name, or store something there: "
    "memory.shared('shpo', as_user=…).add(…)."
)


def misspelt(place: Any) -> Memory:
    """A memory of `told` where all but eve may read any room, and there is none named `shpo`."""
    options: dict[str, Any] = {"embeddings": "hash", "model": ScriptedChatModel()}
    return told(Memory(place, authorize=lambda user, *_: user != "eve", **options))


def check_misspelt(memory: Memory, caplog: Any) -> None:
    """Every recall says it in its report; searches log it once. A refused user learns nothing."""
    ana = memory.user("ana", shared=["team", "shpo"])
    assert [hit.room for hit in ana.search_conversation("ship", k=1)] == ["team"]
    ana.search_records("ship")
    asyncio.run(ana.aget_conversation("m1"))
    assert [one.getMessage() for one in caplog.records].count(NOTHING) == 1
    for mode in ("fast", "reason"):
        asked: Any = {"query": "when do we ship pelicans?", "mode": mode}
        for found in (ana.recall(**asked), asyncio.run(ana.arecall(**asked))):
            assert (found.report.status, found.report.warnings) == ("ok", [NOTHING])
            assert "we ship the pelicans" in found.context
    tool = {
        "title": "ship",
        "type": "object",
        "properties": {"day": {"type": "string"}},
    }
    calls = (ana.ground(tool, "ship it"), asyncio.run(ana.aground(tool, "ship it")))
    assert all(call.warnings.count(NOTHING) == 1 for call in calls)
    _check_graphs(memory, tool)
    eve = memory.user("eve", shared=["team", "shpo"]).recall("ship")
    assert eve.report.warnings == [
        f"the shared room {room!r} was left out: authorize said no."
        for room in ("team", "shpo")
    ]
    memory.shared("shpo", as_user="bob").add([said("shpo it is")], session_id="s")
    assert ana.recall("ship").report.warnings == []


def _check_graphs(memory: Memory, tool: Any) -> None:
    """Graphs say it once in their result, however many of their steps read."""
    for user, expected in (("ana", ("ok", 1)), ("eve", ("degraded", 0))):
        config: Any = {"configurable": {"user_id": user}}
        for mode in ("fast", "reason"):
            graph = create_recall_graph(memory, mode=mode, shared=["team", "shpo"])
            for found in both_ways(
                graph, {"messages": [("user", "when do we ship?")]}, config
            ):
                report = found["memory_recall"]["report"]
                assert (report["status"], report["warnings"].count(NOTHING)) == expected
        filling = create_grounding_graph(memory, tools=tool, shared=["team", "shpo"])
        for found in both_ways(filling, {"request": "ship it"}, config):
            assert found["call"]["warnings"].count(NOTHING) == expected[1]


def both_ways(graph: Any, given: Any, config: Any) -> list[Any]:
    """What a graph gives under `invoke` and under `ainvoke`."""
    return [graph.invoke(given, config), asyncio.run(graph.ainvoke(given, config))]
