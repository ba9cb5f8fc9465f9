"""Whatever comes in, what comes out is an answer or an error of this library, never another one."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from typer.testing import CliRunner

from benchmarks.metrics.stated_numbers import amounts
from langmem_graph.cli import commands
from langmem_graph.cli.import_and_read import import_file
from langmem_graph.errors import InvalidInputError, LangMemGraphError
from langmem_graph.grounding.tool_schema import slot_path, slots_of
from langmem_graph.ids_and_times import to_utc
from langmem_graph.llm import answer_schemas
from langmem_graph.llm.structured_calls import Limits, ModelRunner, RunUsage
from langmem_graph.llm.tool_specs import tool_spec
from langmem_graph.memory import Memory
from langmem_graph.reasoning.nl_logic import Atom, Variable, in_line_form, same_entity
from langmem_graph.schedule.times import EventTime, occurrences
from langmem_graph.testing import ScriptedChatModel
from langmem_graph.topics.track_and_profile_files import parse

texts = st.text(max_size=60) | st.sampled_from(
    [
        "2025-05-03",
        "user",
        "(x:person)",
        "---\n",
        "## Summary",
        "😀" * 9,
        "\ud800",
        "\0",
        "{" * 99,
    ]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
junk = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4)
    ),
    max_leaves=12,
)
EXAMPLES = int(os.environ.get("LANGMEM_GRAPH_FUZZ", "0"))


def many(usual: int) -> Callable[[Any], Any]:
    """`usual` examples; as many as LANGMEM_GRAPH_FUZZ says where it is set (see the last test)."""
    return settings(
        max_examples=EXAMPLES or usual,
        deadline=timedelta(seconds=30),
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.too_slow,
        ],
    )


def tried(work: Callable[[], Any]) -> None:
    """An answer, or an error of ours that says something."""
    try:
        work()
    except LangMemGraphError as error:
        assert str(error)


def near(sample: Any) -> st.SearchStrategy[Any]:
    """The sample with any of its parts left out or replaced by anything."""
    if isinstance(sample, dict):
        parts = {name: near(part) for name, part in sample.items()}
        whole = st.fixed_dictionaries({}, optional=parts) | st.fixed_dictionaries(parts)
    elif isinstance(sample, list):
        whole = st.lists(near(sample[0]), max_size=3) if sample else st.just([])
    else:
        whole = st.just(sample)
    return st.one_of(whole, whole, whole, whole, whole, junk)


# --- what models say -----------------------------------------------------------------------------

SCHEMAS = st.sampled_from(
    [
        answer_schemas.Extraction,
        answer_schemas.Reconciliation,
        answer_schemas.TopicRound,
        answer_schemas.GoalPlan,
        answer_schemas.Unification,
        answer_schemas.Consequences,
        answer_schemas.ToolFill,
    ]
)
WAYS = st.sampled_from([None, "json_schema", "function_calling", "json_mode"])


@many(20)
@given(schema=SCHEMAS, method=WAYS, said=texts | junk.map(json.dumps), args=junk)
def test_a_models_json(schema: Any, method: Any, said: str, args: Any) -> None:
    calls = (
        [{"name": schema.__name__, "args": args, "id": "c"}]
        if isinstance(args, dict)
        else []
    )
    model = ScriptedChatModel(script=[AIMessage(said, tool_calls=calls)])
    usage = RunUsage()
    runner = ModelRunner(model, method, Limits(4, 10_000, 10), "o200k_base")
    answer = asyncio.run(runner.ask(schema, "rules", "question", usage))
    assert answer is None or isinstance(answer, schema)
    assert answer is not None or usage.problems


@many(50)
@given(
    text=texts
    | st.lists(st.sampled_from(["(x:person)", "(", ":", "y", ")", " "])).map("".join)
)
def test_atoms(text: str) -> None:
    atom = Atom.parse(text)
    assert Atom.parse(str(atom)) == atom
    assert isinstance(atom.canonical(), str)
    for variable in atom.variables:
        assert variable not in atom.apply({variable.name: "Eva"}).variables


@many(50)
@given(name=texts, kind=texts)
def test_variables_and_entities(name: str, kind: str) -> None:
    tried(lambda: Variable(name, kind))
    assert same_entity(name, name)
    assert Atom.parse(in_line_form(f"{name} {kind}", [name])).is_malformed in (
        True,
        False,
    )


FRONT = "---\nkind: topic\nname: a\ntitle: A\nversion: 1\nupdated_at: 2025-05-03T10:00:00Z\n---\n\n"
BODY = "## Summary\n\ns\n\n## Narrative\n\nn\n\n## Evidence\n\n- r1\n"
pieces = st.sampled_from(
    [*FRONT.splitlines(True), *BODY.splitlines(True), "&a [*a]\n", "? : -\n"]
)


@many(50)
@given(text=texts | st.lists(pieces | texts, max_size=14).map("".join)
       | st.lists(texts, max_size=3).map(lambda parts: FRONT + BODY + "".join(parts)))  # fmt: skip
def test_front_matter(text: str) -> None:
    tried(lambda: parse(text))


@many(50)
@given(
    event=near(
        {
            "start": "2025-05-03T10:00",
            "end": "2025-05-03T11:00",
            "time_zone": "Europe/Madrid",
            "granularity": "day",
            "recurrence": "FREQ=WEEKLY;BYDAY=MO",
        }
    )
)
def test_times_of_events(event: Any) -> None:
    if isinstance(event, dict) and all(isinstance(name, str) for name in event):
        begin = to_utc("2025-01-01")
        tried(lambda: occurrences(EventTime(**event), begin, begin + timedelta(400), 9))


@many(50)
@given(value=junk)
def test_times_and_values(value: Any) -> None:
    tried(lambda: to_utc(value))
    if isinstance(value, str):
        amounts(value)


TOOL = {
    "type": "function",
    "function": {
        "name": "book",
        "description": "Books.",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "enum": ["a", "b"], "default": "a"},
                "guest": {
                    "type": "object",
                    "properties": {"email": {"type": ["string", "null"]}},
                },
                "other": {"anyOf": [{"$ref": "#/$defs/x"}, {"type": "null"}]},
            },
            "required": ["place"],
            "$defs": {"x": {"type": "integer"}},
        },
    },
}


@many(75)
@example(tool={"name": "f", "parameters": {"properties": {"a": {"$ref": None}}}})
@given(tool=near(TOOL) | near(TOOL["function"]) | junk)
def test_tool_specs(tool: Any) -> None:
    def read() -> None:
        spec = tool_spec(tool)
        for slot in slots_of(spec):
            assert isinstance(slot.about, str)
            assert slot.types is not None
            assert slot.choices is not None
            assert slot_path(slot.name) == slot.path

    tried(read)


# --- files to import -----------------------------------------------------------------------------

CHAT = {
    "session_id": "s",
    "messages": [{"role": "user", "content": "hi", "id": 1, "at": 17e8}],
}
CHATGPT = [{
    "id": "c", "create_time": 17e8, "current_node": "b",
    "mapping": {"b": {"parent": None, "children": [], "message": {
        "id": "m", "author": {"role": "user"}, "create_time": 17e8, "metadata": {},
        "content": {"content_type": "text", "parts": ["hi"]}}}},
}]  # fmt: skip
LOCOMO = [{"sample_id": "1", "conversation": {
    "session_1": [{"dia_id": "D1:1", "speaker": "Eva", "text": "hi", "blip_caption": "a dog"}],
    "session_1_date_time": "1:56 pm on 8 May, 2023"}}]  # fmt: skip
REALMEM = {"dialogues": [{
    "session_uuid": "u", "current_time": "2025-12-24 (Wednesday)",
    "dialogue_turns": [{"speaker": "Assistant", "content": "hi"}]}]}  # fmt: skip
RECORD = {
    "text": "hi",
    "source_message_ids": ["s/1"],
    "valid_from": "2025-01-01",
    "priority": 3,
}
formats = st.one_of(
    *map(near, (CHAT, CHATGPT, LOCOMO, REALMEM, [CHAT], RECORD, [RECORD]))
)
lines = st.lists(
    st.one_of(near(CHAT), near(CHAT["messages"][0]), near(RECORD)), max_size=3
)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with Memory(tmp_path_factory.mktemp("fuzz") / "m", embeddings="hash") as opened:
        yield opened


@many(30)
@given(
    content=formats.map(json.dumps)
    | lines.map(lambda rows: "\n".join(map(json.dumps, rows)))
    | texts
    | st.binary(max_size=60),
    name=st.sampled_from(["f.json", "f.jsonl", "f.zip"]),
)
def test_files_to_import(
    memory: Memory, tmp_path: Path, content: Any, name: str
) -> None:
    file = tmp_path / name
    plain = (
        content
        if isinstance(content, bytes)
        else content.encode("utf-8", "surrogatepass")
    )
    file.write_bytes(plain)
    user = memory.user("importer")
    tried(lambda: import_file(user, file, quiet=True))


# --- what callers give ---------------------------------------------------------------------------


@many(25)
@given(
    messages=near(
        [{"role": "user", "content": "hi", "id": "1", "at": "2025-01-01", "name": "a"}]
    ),
    session=st.just("s") | junk,
    at=st.none() | junk,
    whole=st.booleans(),
)
def test_add(memory: Memory, messages: Any, session: Any, at: Any, whole: bool) -> None:
    user = memory.user("adder")
    tried(
        lambda: user.add(messages, session_id=session, at=at, whole_conversation=whole)
    )


@many(25)
@example(rows=[{**RECORD, "source_message_ids": 1.0}], query="\ud800", k=1, as_of=None)
@example(rows=[{**RECORD, "source_message_ids": "\ud800"}], query="a", k=1, as_of=None)
@given(rows=near([RECORD]), query=texts, k=st.integers(-1, 3), as_of=st.none() | junk)
def test_records_and_searches(
    memory: Memory, rows: Any, query: str, k: int, as_of: Any
) -> None:
    user = memory.user("importer")
    tried(lambda: user.add_records(rows))
    tried(lambda: user.search_records(query, k, as_of=as_of))
    tried(lambda: user.search_conversation(query, k))
    tried(lambda: user.recall(query))
    tried(lambda: user.remember(query))
    for call in (
        user.get_records,
        user.get_conversation,
        user.history,
        user.undo,
        user.read_file,
    ):
        tried(partial(call, query))
    for what in ("message", "session", "record"):
        tried(partial(user.forget, **{what: query}))


COMMANDS = [
    "import",
    "search",
    "show",
    "export",
    "doctor",
    "forget",
    "flush",
    "explain",
    "erase",
]
OPTIONS = ["--user", "--json", "-k", "--as-of", "--session", "--file", "--record", "--message",
           "--output", "--by", "--explain", "--yes", "--at", "--model", "-u"]  # fmt: skip
arguments = st.lists(
    st.sampled_from(OPTIONS) | texts | st.sampled_from(["1", "me"]), max_size=5
)


@many(20)
@given(command=st.sampled_from(COMMANDS), given_arguments=arguments)
def test_the_command_line(
    tmp_path: Path, command: str, given_arguments: list[str]
) -> None:
    place = {"LANGMEM_GRAPH_DIR": str(tmp_path / "m"), "LANGMEM_GRAPH_USER": "me"}
    place |= {"LANGMEM_GRAPH_EMBEDDINGS": "hash", "LANGMEM_GRAPH_MODEL": ""}
    usable = [one for one in given_arguments if "\0" not in one and "\ud800" not in one]
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        done = CliRunner().invoke(commands.app, [command, *usable], env=place)
    finally:
        os.chdir(before)
    # `main` shows it and ends with 2
    if not isinstance(done.exception, LangMemGraphError):
        assert done.exit_code in (0, 1, 2), done.output
        assert done.exception is None or isinstance(done.exception, SystemExit), (
            done.exception
        )


TOOL_NAMES = ["search_conversation", "search_records", "get_conversation", "get_records", "recall",
              "read_file", "remember", "forget", "no such tool"]  # fmt: skip
GIVEN = {"query": "hi", "message_ids": ["1"], "record_ids": ["r"], "name": "index.md", "text": "hi",
         "record_id": "r", "confirm": True}  # fmt: skip


@many(20)
@given(name=st.sampled_from(TOOL_NAMES), given_arguments=near(GIVEN).filter(
    lambda one: isinstance(one, dict)))  # fmt: skip
def test_mcp_tools(memory: Memory, name: str, given_arguments: dict[str, Any]) -> None:
    pytest.importorskip("mcp")
    from langmem_graph.mcp.server import Call, call_tool, offered

    tools = offered(allow_forget=True)
    client = SimpleNamespace(client_params=None)  # that cannot be asked
    user, context = (
        memory.user("importer"),
        SimpleNamespace(session=client, request_id=1),
    )
    call = call_tool(tools.get(name), given_arguments, Call(user), context)  # type: ignore[arg-type]
    result = asyncio.run(call)
    assert result.content
    said = result.content[0].text
    assert said
    assert "Memory cannot be reached" not in said, (name, given_arguments)


@pytest.mark.stress
@pytest.mark.timeout(3_000)
def test_all_of_these_1000_times() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    env = {**os.environ, "LANGMEM_GRAPH_FUZZ": "1000"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    print(f"1,000 examples of each parser: {done.stdout.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stdout[-3_000:]


def test_an_error_of_another_kind_would_be_seen() -> None:
    with pytest.raises(KeyError):
        tried(lambda: {}["x"])
    tried(lambda: (_ for _ in ()).throw(InvalidInputError("fine")))
