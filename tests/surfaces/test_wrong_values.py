"""Wrong values on every surface: each gives an error of ours that shows a right one."""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from langmem_graph.cli.commands import app
from langmem_graph.errors import InvalidInputError, LangMemGraphError
from langmem_graph.graphs.grounding_graph import create_grounding_graph
from langmem_graph.graphs.nodes import create_recall_node, create_write_node
from langmem_graph.graphs.recall_graph import create_recall_graph
from langmem_graph.mcp.server import create_mcp_server
from langmem_graph.memory import Memory
from langmem_graph.middleware import MemoryMiddleware
from langmem_graph.reading import Reading
from langmem_graph.settings import KeepDays, Settings
from langmem_graph.testing import ScriptedChatModel
from langmem_graph.tools import create_memory_tools
from tests.conftest import let_go, said


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    options: dict[str, Any] = {"embeddings": "hash", "model": ScriptedChatModel()}
    memory = Memory(tmp_path_factory.mktemp("m"), authorize=lambda *_: True, **options)
    memory.user("ana").add([said("I like tea")], session_id="s")
    yield memory
    let_go(memory)


async def waits(*_: Any) -> Any:
    """No function that may stand where an answer is needed at once."""


class Shape:
    """No form: not a pydantic model."""


NESTED: Any = {"a": 1}
for _ in range(9):
    NESTED = {"$and": [NESTED]}
ODD = ["", " ", "half \ud800", "x" * 501, "a\0b", True, 1.5, b"x", {}, [], object()]
WRONG: dict[str, list[Any]] = {
    "where": [[], {}, "atlas", 7, {"$not": {"a": 1}}, {"a b": 1}, {1: 2}, {"a": None}, {"a": {}},
              {"a": {"$regex": "x"}}, {"a": {"$in": []}}, {"a": {"$in": "x"}}, {"a": Shape()},
              {"a": {"$in": [1, "x"]}}, {"a": {"$exists": "yes"}}, {"a": math.nan}, {"a": 2**60},
              {"a": "x" * 501}, {"$and": []}, {"$or": {"a": 1}}, {"at": "soon"}, {"at": None},
              {"at": 1e30}, {"at": True}, {"agent_id": []}, NESTED,
              {"a": {"$in": [*range(1_001)]}}],
    "shared": [7.5, None, b"team", {"team": True}, (one for one in ["team"]), object(), [["team"]],
               [None], *([one] for one in ODD if one not in ([], {}))],
    "metadata": ["atlas", 7, [("a", 1)], {"": 1}, {"a b": 1}, {1: 2}, {"a": None}, {"a": []},
                 {"a": math.inf}, {"a": 2**60}, {"a": "x" * 501}, {"a": "\0"}, {"at": 1},
                 {f"k{n}": n for n in range(33)}],
    "agent_id": ODD,
    "keep_days": [{"messages": one} for one in (0, -1, 1.5, "30", True, math.inf, [])]
                 + [{"messages": 5, "records": 9}],
    "authorize": ["yes", True, {"team": ["ana"]}, lambda user: True, lambda: True],
    "redact": ["x", 7, lambda: "", lambda text, user: text, waits],
    "reading": ["x", {"never": "x"}, Reading, lambda: None, waits],
    "new reading": [{"never": 7}, {"rules": "x"}, {"instructions": "x" * 2_001},
                    {"schemas": [Shape]}, {"schemas": "Allergy"}, {"never": None}],
}  # fmt: skip
RIGHT = {
    "where": "as in ",
    "shared": '"team-42"',
    "metadata": "as in ",
    "agent_id": 'agent_id="planner"',
    "keep_days": "as in messages=365, records=180",
    "authorize": "lambda user, room, action:",
    "redact": "lambda text:",
    "reading": "reading(instructions=",
}
Use = Callable[[Memory, Any], Any]


def _ana(name: str, *given: Any) -> Use:
    return lambda memory, where: getattr(memory.user("ana"), name)(*given, where=where)


def _made(make: Any, option: str) -> Use:
    return lambda memory, value: make(memory, **{option: value})


def _opened(option: str) -> Use:
    return lambda memory, value: Memory(
        f"{memory.path}/no", embeddings="hash", **{option: value}
    )


def _added(option: str) -> Use:
    return lambda m, one: m.user("ana").add(
        [said("x")], session_id="s", **{option: one}
    )


READERS = [create_recall_node, MemoryMiddleware, create_memory_tools, create_mcp_server]
WRITERS = [create_write_node, MemoryMiddleware, create_memory_tools, create_mcp_server]
ASKED = (
    "recall",
    "search_conversation",
    "search_records",
    "get_records",
    "get_conversation",
)
USES: dict[str, list[Use]] = {
    "where": [
        *(_ana(name, "tea") for name in ASKED),
        *(
            _ana(name)
            for name in ("export", "export_records", "sessions", "as_retriever")
        ),
        _ana("ground", {"title": "t", "type": "object", "properties": {}}, "tea"),
        *(
            _made(make, "where")
            for make in (*READERS, create_recall_graph, create_grounding_graph)
        ),
    ],
    "shared": [
        lambda memory, rooms: memory.user("ana", shared=rooms),
        *(_made(make, "shared") for make in READERS),
    ],
    "metadata": [
        _added("metadata"),
        lambda memory, given: memory.user("ana").remember(
            "I like tea.", metadata=given
        ),
        *(_made(make, "metadata") for make in WRITERS),
    ],
    "agent_id": [
        _added("agent_id"),
        *(_made(make, "agent_id") for make in WRITERS[:2]),
    ],
    "keep_days": [
        lambda memory, days: memory.keep_days(**days),
        lambda memory, days: memory.user("ana").keep_days(**days),
        lambda memory, days: Settings(keep_days=KeepDays(**days)),
        lambda memory, days: Settings(keep_days=days),
    ],
    **{option: [_opened(option)] for option in ("authorize", "redact", "reading")},
    "new reading": [lambda memory, given: Reading(**given)],
}


@pytest.mark.parametrize("option", USES)
def test_a_wrong_value_is_refused_with_a_right_one(memory: Memory, option: str) -> None:
    right, failed = RIGHT[option.removeprefix("new ")], []
    for number, use in enumerate(USES[option]):
        for value in WRONG[option]:
            try:
                use(memory, value)
                failed.append((number, value, "taken"))
            except LangMemGraphError as error:
                if right not in str(error).lower():
                    failed.append((number, value, str(error)))
            except Exception as error:  # noqa: BLE001  # none of ours: that is what is tried
                failed.append((number, value, repr(error)))
    assert failed == []


DEEP: Any = "tea"
for _ in range(3_000):
    DEEP = [DEEP]
UNSHOWN: list[Any] = [DEEP, 10**5_000, -(10**30), ["a"], {"a": 1}, b"a", Shape(), None]
"""Values that have no `repr`, and others that are no text and no usual number."""
TOOL = {"title": "t", "type": "object", "properties": {"a": {"type": "string"}}}
TAKES: list[Callable[[Any, Any], Any]] = [
    lambda ana, one: ana.recall(one),
    lambda ana, one: ana.recall("tea", k=one),
    lambda ana, one: ana.recall("tea", mode=one),
    lambda ana, one: ana.recall("tea", where={"a": one}),
    lambda ana, one: ana.recall("tea", where={"a": {"$in": one}}),
    lambda ana, one: ana.recall("tea", where={"at": one}),
    lambda ana, one: ana.recall("tea", where=[one]),
    lambda ana, one: ana.add(said("tea"), session_id="s", metadata={"a": one}),
    lambda ana, one: ana.add(said("tea"), session_id=one),
    lambda ana, one: ana.hide(one),
    lambda ana, one: ana.unhide(one),
    lambda ana, one: ana.correct(one, "I like tea."),
    lambda ana, one: ana.undo(one),
    lambda ana, one: ana.undo(message=one),
    lambda ana, one: ana.forget(record=one),
    lambda ana, one: ana.forget_preview(message=one),
    lambda ana, one: ana.read_file(one),
    lambda ana, one: ana.records(start=one),
    lambda ana, one: ana.records(limit=one),
    lambda ana, one: ana.neighbours("r", most=one),
    lambda ana, one: ana.records_of(one),
    lambda ana, one: ana.records_of(type(one)),
    lambda ana, one: ana.ground(TOOL, one),
    lambda ana, one: ana.ground(TOOL, "tea", model_may_choose=[one]),
    lambda ana, one: ana.ground(TOOL, "tea", read=one),
    lambda ana, one: ana.ground(TOOL, "tea", trust=one),
    lambda ana, one: ana.history(one),
    lambda ana, one: ana.changes(one),
    lambda ana, one: ana.neighbours(one).records,
    lambda ana, one: ana.conversation(one),
    lambda ana, one: ana.get_records([one]),
    lambda ana, one: ana.get_conversation([one]),
    lambda ana, one: ana.made_of([one]),
    lambda ana, one: ana.add({"role": one, "content": "tea"}, session_id="s").stored,
    lambda ana, one: ana.add(said("tea", id=one), session_id="s").stored,
    lambda ana, one: ana.calls(limit=10**30),
]


@pytest.mark.parametrize("place", range(len(UNSHOWN)))
def test_no_value_ends_in_an_error_that_is_not_ours(memory: Memory, place: int) -> None:
    ana = memory.user("ana")
    for take in TAKES:
        with suppress(LangMemGraphError):
            take(ana, UNSHOWN[place])


def test_what_names_no_record_no_form_and_no_argument_is_refused(
    memory: Memory,
) -> None:
    ana: Any = memory.user("ana")
    for take in (
        lambda: ana.hide(["a"]),
        lambda: ana.history({"a": 1}),
        lambda: ana.forget(record=["a"]),
        lambda: ana.records(start="a"),
        lambda: ana.records_of("Allergy"),
        lambda: ana.records_of(list[int]),
        lambda: ana.records_of(Shape),
        lambda: ana.ground(TOOL, "tea", model_may_choose=[5]),
        lambda: ana.ground(TOOL, "tea", model_may_choose=b"a"),
    ):
        with pytest.raises(InvalidInputError):
            take()


REFUSED: dict[str, Callable[[Any], Any]] = {
    **{
        f"in_view {one!r}": lambda ana, one=one: ana.recall("tea", in_view=one)
        for one in (None, 5.5, {"a": 1}, b"a")
    },
    **{
        f"timeout {one!r}": lambda ana, one=one: ana.drain(one)
        for one in ("soon", math.nan, [])
    },
    "origin": lambda ana: ana.add([said("a")], session_id="q", origin=["import"]),
    "given_before": lambda ana: ana.add([said("a")], session_id="q", given_before=5.5),
    "k": lambda ana: ana.as_retriever(k="five"),
    "by": lambda ana: ana.as_retriever(by="sessions"),
}
"""Options that are none, each with the words of the error that names it."""


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_option_is_refused_by_its_name(memory: Memory, name: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{name.split(maxsplit=1)[0]} must be"):
        REFUSED[name](memory.user("ana"))


async def test_the_asynchronous_methods_refuse_them_too(memory: Memory) -> None:
    ana: Any = memory.user("ana")
    with pytest.raises(InvalidInputError, match="in_view must be"):
        await ana.arecall("tea", in_view=None)
    with pytest.raises(InvalidInputError, match="timeout must be"):
        await ana.adrain("soon")


@pytest.mark.parametrize("make", [create_recall_node, create_write_node])
@pytest.mark.parametrize("key", [["messages"], None, 5, ""])
def test_a_key_of_messages_is_a_text(memory: Memory, make: Any, key: Any) -> None:
    with pytest.raises(InvalidInputError, match="messages_key must be"):
        make(memory, messages_key=key)


def test_what_can_be_understood_is_taken(memory: Memory, tmp_path: Path) -> None:
    ana: Any = memory.user("ana")
    assert ana.drain(10**400)
    assert ana.drain(math.inf)
    assert ana.search_conversation("tea", explain="yes")[0].signals
    assert not ana.search_conversation("tea", explain=None)[0].signals
    report = ana.add([said("tea", id="m9")], session_id="s", given_before="m9")
    assert report.forgotten == ["m9"]
    recalled = ana.recall("tea", in_view="I like tea", max_tokens=10**400)
    assert "I like tea" not in recalled.context
    Memory(tmp_path, embeddings="hash", read_only=[]).close()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "right"),
    [
        *(
            (["search", "tea", "--where", one], "as in ")
            for one in ("", "atlas", "[]", '{"a": 0', "[" * 3_000)
        ),
        *(
            (["export", "--where", one], "as in ")
            for one in ("7", '{"at": "soon"}', '{"a": {}}')
        ),
        *(
            (["search", "tea", "--shared", one], "team-42")
            for one in ("", "taem", "x" * 501)
        ),
        (["mcp", "--shared", "taem"], "--shared team-42"),
        *((["expire", "--messages", one], "messages=365") for one in ("0", "-1")),
    ],
)
def test_a_wrong_option_is_refused_with_a_right_one(
    tmp_path: Path, options: list[str], right: str
) -> None:
    Memory(tmp_path, embeddings="hash").close()
    place = ["--memory", str(tmp_path), "--user", "ana"]
    done = CliRunner().invoke(app, [*options, *place])
    assert isinstance(done.exception, LangMemGraphError), done.output
    assert right in str(done.exception).lower()
