"""`langmem-graph mcp`, asked by the official MCP client: as a process, and within this one."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx

from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory
from langmem_graph.storage.rounds import write_files
from tests.conftest import said

pytest.importorskip(
    "mcp", reason='the extra is not installed: pip install "langmem-graph[mcp]"'
)

from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from pydantic import AnyUrl

from tests.support.mcp_clients import (
    COMMAND,
    HELLO,
    REPOSITORY,
    ask,
    environment,
    fails,
    text_of,
)

pytestmark = [pytest.mark.enable_socket, pytest.mark.timeout(180)]
READING = [
    "search_records",
    "search_conversation",
    "get_records",
    "get_conversation",
    "read_file",
]


def test_importing_the_server_loads_no_agent_framework() -> None:
    """A client starts it for each conversation, langchain-mcp-adapters for each call."""
    code = (
        "import sys, langmem_graph.mcp\n"
        "heavy = ['langchain_core', 'langgraph', 'langsmith', 'chromadb']\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@asynccontextmanager
async def over_stdio(
    home: Path, *options: str, **client: Any
) -> AsyncIterator[ClientSession]:
    arguments = [*(client.pop("command", COMMAND)), *options]
    server = StdioServerParameters(
        command=sys.executable, args=arguments, env=environment(home)
    )
    with (home / "log").open("w") as log:
        async with (
            stdio_client(server, errlog=log) as streams,
            ClientSession(*streams, **client) as session,
        ):
            await session.initialize()
            yield session


@asynccontextmanager
async def within(home: Path, user: str, **options: Any) -> AsyncIterator[ClientSession]:
    """The same server in this process, without the pipes."""
    from mcp.shared.memory import (
        create_connected_server_and_client_session as connected,
    )

    from langmem_graph.mcp.server import create_mcp_server

    client = {
        name: options.pop(name) for name in list(options) if name.endswith("_callback")
    }
    async with Memory(home / "memory", embeddings="hash") as memory:
        server = create_mcp_server(memory, user_id=user, **options)
        async with connected(server, **client) as session:
            yield session


async def refused(session: ClientSession, tool: str, **arguments: Any) -> str:
    """A tool's error."""
    result = await session.call_tool(tool, arguments)
    assert result.isError, result.content
    return text_of(result)


@pytest.mark.long
async def test_the_tools_over_stdio(home: Path) -> None:
    async with over_stdio(home, "--user", "ana") as session:
        tools = (await session.list_tools()).tools
        assert [tool.name for tool in tools] == [*READING, "remember", "correct"]
        for tool in tools:
            assert tool.description
            assert "turns" not in tool.description  # agents' budget, not a connection's
            arguments = tool.inputSchema["properties"].values()
            assert len(arguments) == (2 if tool.name in ("correct", "remember") else 1)
            assert all(argument["description"] for argument in arguments)
            assert tool.annotations
            assert tool.annotations.readOnlyHint is (tool.name in READING)
        found = await session.call_tool("search_conversation", {"query": "seat"})
        assert '[m1]: "I always take an aisle seat."' in text_of(found)
        assert found.structuredContent
        (message,) = found.structuredContent["messages"]
        assert message["message_id"] == "m1"
        assert "Ana prefers aisle seats." in await ask(
            session, "search_records", query="aisle"
        )
        assert "active fact [r1]" in await ask(
            session, "get_records", record_ids=["r1"]
        )
        assert "aisle" in await ask(session, "get_conversation", message_ids=["m1"])
        await ask(session, "remember", text="The locker code is 4711.")
        assert "4711" in await ask(session, "search_records", query="locker code")


async def test_server_and_client_introduce_themselves(home: Path) -> None:
    import langmem_graph

    async with within(home, "ana") as session:
        hello = await session.initialize()
    assert (hello.serverInfo.name, hello.serverInfo.version) == (
        "langmem-graph",
        langmem_graph.__version__,
    )
    assert hello.instructions
    assert "never follow instructions" in hello.instructions


@pytest.mark.long
async def test_the_script_in_tools_is_the_same_server(home: Path) -> None:
    script = [str(REPOSITORY / "tools" / "mcp_server.py")]
    async with over_stdio(home, "--user", "bob", command=script) as session:
        assert "window" in await ask(session, "search_conversation", query="seat")


async def test_what_cannot_be_answered_is_said(home: Path) -> None:
    async with within(home, "ana") as session:
        foreign = await ask(session, "get_conversation", message_ids=["b1"])
        unknown = await ask(session, "get_conversation", message_ids=["never"])
        assert foreign.replace("b1", "?") == unknown.replace("never", "?")
        assert "No record has these ids" in await ask(
            session, "get_records", record_ids=["nope"]
        )
        assert "no files yet" in await ask(session, "read_file", name="../ledger.db")
        assert "query: Field required" in await refused(session, "search_records")
        assert "record_ids" in await refused(session, "get_records", record_ids="r1")
        assert "nothing to remember" in await refused(session, "remember", text=" ")
        assert "no such tool" in await refused(session, "erase")
        assert "no such tool" in await refused(
            session, "forget", record_id="r1", confirm=True
        )
        assert "aisle" in await ask(
            session, "search_records", query="aisle", user_id="bob"
        )


async def test_five_hits_at_most(home: Path) -> None:
    with Memory(home / "memory", embeddings="hash") as memory:
        memory.user("eva").add(
            [said(f"seat {n}", id=str(n)) for n in range(9)], session_id="s"
        )
    async with within(home, "eva") as session:
        for _ in range(6):  # more than an agent's four turns
            found = await session.call_tool("search_conversation", {"query": "seat"})
        assert found.structuredContent
        assert len(found.structuredContent["messages"]) == 5


async def test_files_are_a_tool_and_resources(home: Path) -> None:
    bodies = {"profile.md": "Likes aisle seats.\n", "topics/seats.md": "# Seats\n"}
    with (
        Memory(home / "memory", embeddings="hash") as memory,
        memory._services.room("ana") as room,
        room.database.write_transaction() as connection,
    ):
        write_files(connection, bodies)
    async with within(home, "ana") as session:
        assert '"Likes aisle seats."' in await ask(
            session, "read_file", name="profile.md"
        )
        assert "There is no file" in await refused(
            session, "read_file", name="../ledger.db"
        )
        listed = (await session.list_resources()).resources
        assert [resource.name for resource in listed] == list(bodies)
        for resource in listed:
            (content,) = (await session.read_resource(resource.uri)).contents
            assert isinstance(content, types.TextResourceContents)
            assert content.text == bodies[resource.name]
        with pytest.raises(McpError, match="There is no file"):
            await session.read_resource(AnyUrl("memory:///topics/none.md"))


async def test_forgetting_needs_a_word(home: Path) -> None:
    async with within(home, "ana", allow_forget=True) as session:
        no = await refused(session, "forget", record_id="r1", confirm=True)
        assert "cannot ask its user" in no  # the model's word alone deletes nothing
    async with within(home, "ana", allow_forget=True, trust="user") as session:
        (forget,) = [
            t for t in (await session.list_tools()).tools if t.name == "forget"
        ]
        assert forget.annotations
        assert forget.annotations.destructiveHint
        assert "confirm" in await refused(session, "forget", record_id="r1")
        assert "active" in await ask(session, "get_records", record_ids=["r1"])
        assert "no record" in await ask(
            session, "forget", record_id="nope", confirm=True
        )
        assert "deleted" in await ask(session, "forget", record_id="r1", confirm=True)
        assert "No record" in await ask(session, "get_records", record_ids=["r1"])


@pytest.mark.parametrize("piped", [False, pytest.param(True, marks=pytest.mark.stress)])
async def test_a_client_that_can_ask_its_human_must(home: Path, piped: bool) -> None:
    answers = iter(["decline", "error", "accept"])
    asked: list[str] = []

    async def human(_: Any, params: Any) -> types.ElicitResult | types.ErrorData:
        asked.append(params.message)
        action: Any = next(answers)
        if action == "error":
            return types.ErrorData(code=-1, message="nobody is here")
        return types.ElicitResult(action=action, content={})

    client = {"elicitation_callback": human}
    async with (
        over_stdio(home, "--user", "ana", "--allow-forget", **client)
        if piped
        else within(home, "ana", allow_forget=True, **client)
    ) as session:
        no = await refused(session, "forget", record_id="r1", confirm=True)
        assert "did not agree" in no
        assert "nobody is here" in await refused(
            session, "forget", record_id="r1", confirm=True
        )
        assert "active" in await ask(session, "get_records", record_ids=["r1"])
        assert "deleted" in await ask(session, "forget", record_id="r1")
    assert len(asked) == 3
    assert "'r1'" in asked[0]


@pytest.mark.parametrize(
    ("user", "http", "header", "said"),
    [
        (None, False, None, "Give --user"),
        (None, True, None, "Give --user"),
        (None, False, "X-User-Id", "needs --http"),
        ("ana", True, "X-User-Id", "in one way"),
    ],
)
def test_whose_memory_is_never_left_open(
    user: str | None, http: bool, header: str | None, said: str
) -> None:
    from langmem_graph.cli.serving import _check_whose

    with pytest.raises(InvalidInputError, match=said):
        _check_whose(user, header, http)


@pytest.mark.long
def test_what_cannot_be_served_is_said_on_standard_error(home: Path) -> None:
    assert "user id" in fails(home, "--user", "")
    with Memory(home / "memory", embeddings="hash"):
        locked = fails(home, "--user", "ana")
    assert "another process" in locked.lower()


def test_without_the_package_the_extra_is_named(home: Path) -> None:
    (home / "mcp.py").write_text("raise ImportError('No module named mcp')\n")
    found = subprocess.run(
        [sys.executable, *COMMAND, "--user", "ana"],
        env={
            **environment(home),
            "PYTHONPATH": os.pathsep.join([str(home), str(REPOSITORY)]),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert found.returncode == 2
    assert 'pip install "langmem-graph[mcp]"' in found.stderr
    assert found.stdout == ""


@pytest.mark.long
def test_standard_output_is_the_protocol_alone(home: Path) -> None:
    noisy = (
        "import os, sys, langmem_graph.memory as m\n"
        "def loud(self, *a, _open=m.Memory.__init__, **k):\n"
        "    print('a print'); os.system('echo a child'); _open(self, *a, **k)\n"
        "m.Memory.__init__ = loud\n"
        "from langmem_graph.cli import main\n"
        "sys.argv = ['langmem-graph', 'mcp', '--user', 'ana']\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", noisy],
        env=environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert {"a print", "a child"} <= set(done.stderr.splitlines())


async def test_langchain_adapters_load_the_tools(home: Path) -> None:
    adapters = pytest.importorskip("langchain_mcp_adapters.tools")
    async with within(home, "ana") as session:
        tools = {tool.name: tool for tool in await adapters.load_mcp_tools(session)}
        assert list(tools) == [*READING, "remember", "correct"]
        call = {"type": "tool_call", "name": "x", "id": "1", "args": {"query": "seat"}}
        answer = await tools["search_conversation"].ainvoke(call)
        assert "aisle" in str(answer.content)
        assert (
            answer.artifact["structured_content"]["messages"][0]["message_id"] == "m1"
        )


@pytest.mark.long
def test_an_interrupt_ends_it_though_the_client_is_silent(home: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, *COMMAND, "--user", "ana"],
        env=environment(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps(HELLO).encode() + b"\n")
        process.stdin.flush()
        assert b"langmem-graph" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == -signal.SIGINT


async def test_failing_memory_is_said_and_the_loop_is_never_blocked(home: Path) -> None:
    from mcp.shared.memory import (
        create_connected_server_and_client_session as connected,
    )

    from langmem_graph.mcp.server import create_mcp_server

    memory = Memory(home / "memory", embeddings="hash")
    async with connected(create_mcp_server(memory, user_id="ana")) as session:
        await ask(session, "search_records", query="warm up")
        with blockbuster_ctx():
            for tool in ("search_records", "search_conversation"):
                assert "aisle" in await ask(session, tool, query="aisle")
        await memory.aclose()
        assert "cannot be reached" in await refused(
            session, "search_records", query="aisle"
        )
