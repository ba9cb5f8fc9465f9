"""Two users never see each other: ids that look alike, over every surface, many at once."""

import asyncio
import hashlib
import json
import runpy
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.graph import START, StateGraph
from typer.testing import CliRunner

from langmem_graph.cli import commands
from langmem_graph.errors import MissingUserError
from langmem_graph.graphs.goal_graph import create_goal_graph
from langmem_graph.graphs.grounding_graph import create_grounding_graph
from langmem_graph.graphs.nodes import (
    MemoryState,
    create_recall_node,
    create_write_node,
    with_memory,
)
from langmem_graph.graphs.recall_graph import create_recall_graph
from langmem_graph.graphs.write_graph import create_write_graph
from langmem_graph.ids_and_times import folder_name, user_key
from langmem_graph.memory import Memory
from langmem_graph.middleware import MemoryMiddleware
from langmem_graph.settings import ExtractionSettings, Settings, StorageSettings
from langmem_graph.store.chroma_store import ChromaStore
from langmem_graph.tools.memory_tools import create_memory_tools
from tests.support.isolation import ASKED, Send, config_of
from tests.support.models import steady_model

pytestmark = pytest.mark.timeout(600)

FEW = ["acme", "acme-corp", "ACME", "é", "e\u0301"]
MANY = [
    *FEW,
    *(
        "a_b",
        "axb",
        "../acme",
        "a%",
        "abc",
        "a*",
        "ab",
        "[ab]",
        "a",
        "a.b",
        "b",
        "a/../b",
        ".",
        "..",
        "~",
        "$HOME",
        "-x",
    ),
    *("ß", "ss", "ınfo", "INFO", "info", "K", "\u212a", "ﬁ", "fi", "A", "Α", "А"),
    *(
        "user",
        "user ",
        " user",
        "user\n",
        "user/",
        "user\\",
        "user\0x",
        "user\u200b",
        "user\ufeff",
    ),
    *("ana@example.org", "ana@example.org.evil", "ana+1@example.org", "日本", "日本語"),
    *(
        "x" * 600,
        "x" * 601,
        "7",
        "07",
        "７",
        "7.0",
        "null",
        "None",
        "true",
        "' OR 1=1 --",
        "'",
    ),
    *(
        "con",
        "CON",
        "nul",
        "users",
        "items",
        "lock",
        folder_name("acme"),
        "%61cme",
        "acme;b",
    ),
]


def token(user: str) -> str:
    return f"tok{hashlib.sha256(user.encode()).hexdigest()[:12]}"


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    quiet = Settings(
        extraction=ExtractionSettings(debounce_seconds=0.01),
        storage=StorageSettings(closing_seconds=0.01, max_open_users=16),
    )
    path = tmp_path_factory.mktemp("isolation") / "m"
    with Memory(
        path, model=steady_model(), embeddings="hash", settings=quiet
    ) as opened:
        yield opened


def tell(memory: Memory, user: str) -> None:
    """The same ids, session and words for everybody, but for the secret."""
    own = memory.user(user)
    talk = [
        {
            "role": "user",
            "content": f"My secret number {n} is {token(user)}.",
            "id": f"m{n}",
        }
        for n in range(3)
    ]
    own.add(talk, session_id="t1")
    record = {"text": f"The secret is {token(user)}.", "source_message_ids": ["m1"]}
    own.add_records([{**record, "record_id": "r1"}])
    own.flush()


# --- every surface: what a user can see through it, as one text ---


def by_methods(memory: Memory, user: str) -> str:
    own, ids = memory.user(user), [f"m{n}" for n in range(9)]
    seen = [
        *own.search_conversation("secret", 50),
        *own.search_conversation("secret", 50, "session"),
        *own.search_records("secret", 50),
        *own.get_conversation(ids),
        *own.get_records(["r1", *(row["record_id"] for row in own.export_records())]),
        *own.sessions(),
        *own.history("r1"),
    ]
    found = own.recall("What is my secret?")
    texts = [found.context, *(own.read_file(name) for name in own.files())]
    return repr(
        (
            seen,
            texts,
            found,
            own.export(),
            own.export_records(history=True),
            own.doctor(),
        )
    )


async def by_twins(memory: Memory, user: str) -> str:
    own, ids = memory.user(user), [f"m{n}" for n in range(9)]
    reasoned = await own.arecall("Shall I tell my secret?", mode="reason")
    assert reasoned.reasoning is not None
    return repr(
        (
            await own.asearch_conversation("secret", 50),
            await own.asearch_records("secret", 50),
            await own.aget_conversation(ids),
            await own.aget_records("r1"),
            await own.aexport(),
            await own.aexport_records(history=True),
            await own.asessions(),
            [await own.aread_file(name) for name in await own.afiles()],
            await own.ahistory("r1"),
            await own.aground(Send, "Send my secret."),
            reasoned,
        )
    )


def by_retriever(memory: Memory, user: str) -> str:
    own = memory.user(user)
    return repr(
        [
            own.as_retriever(k=50, by=by).invoke("secret")
            for by in ("message", "session")
        ]
    )


class Graphs:
    """Compiled once and shared by all users."""

    def __init__(self, memory: Memory) -> None:
        model = steady_model()

        def chat(state: MemoryState) -> dict[str, Any]:
            return {"messages": [model.invoke(with_memory(state))]}

        builder = StateGraph(MemoryState)
        builder.add_node(
            "recall", create_recall_node(memory, mode="reason", report=True)
        )
        builder.add_node("chat", chat)
        builder.add_node("write", create_write_node(memory, extraction="manual"))
        builder.add_edge(START, "recall")
        builder.add_edge("recall", "chat")
        builder.add_edge("chat", "write")
        self.nodes = builder.compile()
        middleware = MemoryMiddleware(
            memory, mode="auto", extraction="manual", report=True
        )
        self.agent = create_agent(model, middleware=[middleware])
        self.recall = create_recall_graph(memory, answer=True)
        self.grounding = create_grounding_graph(memory, tools=[Send])
        self.write = create_write_graph(memory)
        self.tools = {tool.name: tool for tool in create_memory_tools(memory)}


def by_graphs(graphs: Graphs, user: str) -> str:
    config = config_of(user)
    seen: list[Any] = [
        list(
            graphs.nodes.stream(
                ASKED, config, stream_mode=["custom", "updates", "values"]
            )
        ),
        list(
            graphs.agent.stream(
                ASKED, config, stream_mode=["custom", "updates", "values"]
            )
        ),
        list(
            graphs.recall.stream(
                ASKED, config, stream_mode=["custom", "values"], subgraphs=True
            )
        ),
        list(graphs.grounding.stream(ASKED, config, stream_mode=["custom", "values"])),
        graphs.write.invoke({"messages": [("user", f"Again: {token(user)}")]}, config),
    ]
    return repr(seen)


async def by_graphs_async(graphs: Graphs, user: str) -> str:
    config = config_of(user)
    runs = (graphs.nodes, graphs.agent, graphs.recall, graphs.grounding)
    return repr(await asyncio.gather(*(graph.ainvoke(ASKED, config) for graph in runs)))


def by_tools(graphs: Graphs, memory: Memory, user: str) -> str:
    config = config_of(user)
    tools = graphs.tools
    seen = [
        tools["search_records"].invoke({"query": "secret"}, config),
        tools["search_conversation"].invoke({"query": "secret"}, config),
        tools["get_records"].invoke({"record_ids": ["r1"]}, config),
        tools["get_conversation"].invoke({"message_ids": ["m0", "m1", "m2"]}, config),
        *(
            tools["read_file"].invoke({"name": n}, config)
            for n in memory.user(user).files()
        ),
    ]
    return repr(seen)


def by_goals(memory: Memory, user: str) -> str:
    goals = create_goal_graph(
        memory.user(user).as_retriever(k=50), model=steady_model()
    )
    return repr(goals.invoke({"query": "What is the secret?"}))


async def by_mcp(memory: Memory, user: str) -> str:
    pytest.importorskip("mcp")
    from mcp.shared.memory import create_connected_server_and_client_session

    from langmem_graph.mcp.server import create_mcp_server

    server = create_mcp_server(memory, user_id=user)
    async with create_connected_server_and_client_session(server) as client:
        asked: list[tuple[str, dict[str, Any]]] = [
            ("search_records", {"query": "secret"}),
            ("search_conversation", {"query": "secret"}),
            ("get_records", {"record_ids": ["r1"]}),
            ("get_conversation", {"message_ids": ["m0", "m1", "m2"]}),
            ("remember", {"text": f"I said {token(user)} over MCP."}),
        ]
        seen: list[Any] = [await client.call_tool(name, given) for name, given in asked]
        files = (await client.list_resources()).resources
        seen += [await client.read_resource(one.uri) for one in files]
        return repr(seen)


def by_command_line(memory: Memory, user: str) -> str:
    common = [f"--user={user}", f"--memory={memory.path}"]
    text = ""
    for command in (
        ["search", "secret", "-k", "50", "--embeddings=hash"],
        ["show"],
        ["export"],
    ):
        done = CliRunner().invoke(commands.app, [*command, *common])
        assert done.exit_code == 0, (user, done.output, done.exception)
        text += done.output
    return text


def assert_own(seen: str, user: str, users: list[str], where: str) -> None:
    assert token(user) in seen, (where, user)
    foreign = [other for other in users if other != user and token(other) in seen]
    assert not foreign, f"{where}: {user!r} sees {foreign!r}"


def _check_all(memory: Memory, users: list[str]) -> int:
    for user in users:
        tell(memory, user)
    graphs, checks = Graphs(memory), 0
    for user in users:
        seen = {
            "methods": by_methods(memory, user),
            "async methods": asyncio.run(by_twins(memory, user)),
            "retriever": by_retriever(memory, user),
            "graphs": by_graphs(graphs, user),
            "graphs, async": asyncio.run(by_graphs_async(graphs, user)),
            "tools": by_tools(graphs, memory, user),
            "goal graph": by_goals(memory, user),
            "MCP": asyncio.run(by_mcp(memory, user)),
            "command line": by_command_line(memory, user)
            if "\0" not in user
            else token(user),
        }
        for where, text in seen.items():
            assert_own(text, user, users, where)
        checks += len(seen)
    return checks


@pytest.mark.long
# the in-process MCP session opens a socket pair with asyncio.run
@pytest.mark.enable_socket
def test_no_surface_shows_another_user(memory: Memory) -> None:
    # ids that differ by an accent meet below; all of them in `make stress`
    few = FEW[:3]
    assert _check_all(memory, few) == 9 * len(few)


@pytest.mark.stress
@pytest.mark.enable_socket
@pytest.mark.timeout(1_200)
def test_no_surface_shows_another_of_many_users(memory: Memory) -> None:
    checks = _check_all(memory, MANY)
    print(f"\n{len(MANY)} ids, {checks} looks through 9 surfaces: 0 foreign rows")


def test_every_id_has_a_room_of_its_own() -> None:
    assert len(set(MANY)) == len(MANY)
    assert len({folder_name(user_key(user)) for user in MANY}) == len(MANY)
    assert user_key(7) == user_key("7")
    for nobody in ("", " ", "\n", None, True, 7.0, b"7", ["7"]):
        with pytest.raises(MissingUserError):
            user_key(nobody)


# --- LangGraph's store ---


def test_namespaces_of_users_in_a_store(tmp_path: Path) -> None:
    refused = []
    with ChromaStore(tmp_path / "m", embeddings="hash") as store:
        for user in MANY:
            try:
                store.put(("users", user), "k", {"text": f"secret {token(user)}"})
            except ValueError:
                refused.append(user)
        users = [user for user in MANY if user not in refused]
        for user in users:
            own = ("users", user)
            seen = [
                store.get(own, "k"),
                store.search(own),
                store.search(own, query="secret"),
            ]
            assert_own(repr(seen), user, MANY, "store")
            assert len(store.list_namespaces(prefix=own)) == 1 or "*" in user
    assert all("." in user or "\0" in user for user in refused), refused


# --- a thread in which two users speak ---


def test_a_shared_thread_of_the_served_chatbot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    for name in (
        "OPENAI_API_KEY",
        "CHAT_MODEL",
        "CHAT_BASE_URL",
        "LANGMEM_GRAPH_MODEL",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANGMEM_GRAPH_DIR", str(tmp_path / "m"))
    monkeypatch.setenv("LANGMEM_GRAPH_EMBEDDINGS", "hash")
    served = runpy.run_path(str(Path(__file__).parents[2] / "graphs" / "chatbot.py"))
    graph = served["graph"].copy({"checkpointer": InMemorySaver()})
    with served["memory"] as memory:
        for user in ("acme", "acme-corp", "acme"):
            said = {"messages": [("user", f"My secret is {token(user)}.")]}
            asyncio.run(graph.ainvoke(said, config_of(user)))
        for user, other in (("acme", "acme-corp"), ("acme-corp", "acme")):
            assert_own(
                json.dumps(memory.user(user).export()), user, [user, other], "thread"
            )


# --- many at once ---


def _storm(memory: Memory, users: tuple[str, str], turns: int) -> tuple[int, list[str]]:
    """Writers and readers of two users through every surface at once; what went wrong."""
    graphs = Graphs(memory)
    surfaces = [
        lambda user: by_methods(memory, user),
        lambda user: by_retriever(memory, user),
        lambda user: by_graphs(graphs, user),
        lambda user: by_tools(graphs, memory, user),
    ]

    def work(n: int) -> list[str]:
        user, other = users if n % 2 else users[::-1]
        own = memory.user(user)
        own.add(
            [{"role": "user", "content": f"{n}: secret {token(user)}", "id": f"w{n}"}],
            session_id="t1",
        )
        seen = surfaces[n // 2 % len(surfaces)](user)
        return (
            [f"{user} sees {other} in surface {n // 2 % 4}"]
            if token(other) in seen
            else []
        )

    async def awork(n: int) -> list[str]:
        user, other = users if n % 2 else users[::-1]
        own = memory.user(user)
        said = {"role": "user", "content": f"{n}: secret {token(user)}", "id": f"a{n}"}
        await own.aadd([said], session_id="t1")
        seen = await (
            by_twins(memory, user) if n % 4 < 2 else by_graphs_async(graphs, user)
        )
        return [f"{user} sees {other}, async"] if token(other) in seen else []

    async def tasks() -> list[list[str]]:
        return await asyncio.gather(*map(awork, range(turns)))

    with ThreadPoolExecutor(turns) as pool:
        wrong = [problem for found in pool.map(work, range(turns)) for problem in found]
    wrong += [problem for found in asyncio.run(tasks()) for problem in found]
    for user in users:
        rows = json.dumps(memory.user(user).export())
        for n in range(turns):
            mine = user == (users if n % 2 else users[::-1])[0]
            for name in (f'"w{n}"', f'"a{n}"'):
                wrong += [] if (name in rows) == mine else [f"{name} of {user}"]
    return 2 * turns, wrong


@pytest.mark.enable_socket
@pytest.mark.long
def test_two_users_at_once(memory: Memory) -> None:
    for user in ("é2", "e\u03012"):
        tell(memory, user)
    _, wrong = _storm(memory, ("é2", "e\u03012"), 8)
    assert wrong == []


@pytest.mark.stress
@pytest.mark.enable_socket
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(
    "users", [("acme1", "acme1-corp"), ("x_y", "xzy"), ("user1", "USER1")]
)
def test_two_users_with_fifty_writers_and_readers_each(
    memory: Memory, users: tuple[str, str]
) -> None:
    for user in users:
        tell(memory, user)
    done, wrong = _storm(memory, users, 100)
    print(
        f"\n{users}: {done} writers and readers at once, {len(wrong)} foreign or lost rows"
    )
    assert wrong == []
