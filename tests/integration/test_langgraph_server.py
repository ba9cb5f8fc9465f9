"""`langgraph dev` serves graphs/: real HTTP, real threads, its own blocking-call detection."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias

import httpx
import pytest

from langmem_graph.store.chroma_store import ChromaStore
from tests.support.chat_server import chat_server
from tests.support.flights import filling
from tests.support.loopback import free_port, loopback_alone

pytestmark = [pytest.mark.enable_socket, pytest.mark.timeout(180), pytest.mark.long]
REPOSITORY = Path(__file__).parents[2]
Process: TypeAlias = "subprocess.Popen[bytes]"
langgraph = Path(sys.executable).parent / "langgraph"

if not langgraph.exists():
    pytest.skip("langgraph-cli[inmem] is not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("server")) as url:
        yield url


@contextmanager
def served(home: Path, *, store: str | None = None, **more: str) -> Iterator[str]:
    port = free_port()
    settings = json.loads((REPOSITORY / "langgraph.json").read_text())
    settings["dependencies"] = [str(REPOSITORY)]
    settings["graphs"] = {
        n: str(REPOSITORY / place) for n, place in settings["graphs"].items()
    }
    if store is not None:
        settings["store"] = {"path": str(REPOSITORY / store)}
    (home / "langgraph.json").write_text(json.dumps(settings))
    environment = {
        name: value for name, value in os.environ.items() if name != "OPENAI_API_KEY"
    }
    environment |= {
        "LANGMEM_GRAPH_DIR": str(home / "memory"),
        "LANGMEM_GRAPH_EMBEDDINGS": "hash",
    }
    environment |= more
    with loopback_alone(), (home / "log").open("w") as log:
        process = _started(home, environment, port, log)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


def _started(
    home: Path, environment: dict[str, str], port: int, log: IO[str]
) -> Process:
    """The server, once it answers.

    A start that ends with a segmentation fault is tried once more: this was seen once in some
    hundred starts, before the server had written a line. Should it come again, the log says where.
    """
    for _ in range(2):
        process = subprocess.Popen(
            [langgraph, "dev", "--no-browser", "--no-reload", "--port", str(port)],
            cwd=home,  # it keeps files of its own there
            env=environment | {"PYTHONFAULTHANDLER": "1"},
            stdout=log,
            stderr=log,
        )
        if _answers(f"http://127.0.0.1:{port}", process):
            return process
        process.kill()
        if process.wait(30) != -signal.SIGSEGV:
            break
    raise RuntimeError(f"langgraph dev did not start:\n{(home / 'log').read_text()}")


def _answers(url: str, process: Process) -> bool:
    # a new one for each try would read all certificates again
    with httpx.Client() as web:
        for _ in range(900):
            try:
                if web.get(f"{url}/ok").is_success:
                    return True
            except httpx.TransportError:
                time.sleep(0.1)
            if process.poll() is not None:
                return False
    return False


def post(url: str, **body: Any) -> Any:
    answer = httpx.post(url, json=body, timeout=60)
    assert answer.is_success, answer.text
    return answer.json()


def run(
    server: str, graph: str, text: str, thread: str | None = None, **places: Any
) -> Any:
    where = f"{server}/threads/{thread}/runs/wait" if thread else f"{server}/runs/wait"
    said = {"messages": [{"role": "user", "content": text}]}
    return post(where, assistant_id=graph, input=said, **places)


def as_user(user: str) -> dict[str, Any]:
    return {"config": {"configurable": {"user_id": user}}}


def test_a_second_thread_recalls_the_first(server: str) -> None:
    first, second = (post(f"{server}/threads")["thread_id"] for _ in range(2))
    run(server, "chatbot", "I always take an aisle seat.", first, **as_user("ana"))
    end = run(server, "chatbot", "Which seat do I take?", second, **as_user("ana"))
    assert "I always take an aisle seat." in end["messages"][-1]["content"]
    assert len(end["messages"]) == 2
    other = run(server, "chatbot", "Which seat do I take?", **as_user("bob"))
    assert "aisle" not in other["messages"][-1]["content"]


def test_the_user_may_come_from_the_context(server: str) -> None:
    run(server, "write", "My bike is red.", context={"user_id": "cleo"})
    end = run(server, "recall", "bike?", context={"user_id": "cleo"})
    assert "My bike is red." in end["memory_context"]
    assert end["memory_report"]["recall"]["status"] == "ok"


def test_no_user_is_an_error_that_names_the_places(server: str) -> None:
    error = run(server, "recall", "hello")["__error__"]
    assert error["error"] == "MissingUserError"
    assert "configurable" in error["message"]


def test_events_are_streamed(server: str) -> None:
    body = {
        "assistant_id": "chatbot",
        "input": {"messages": [{"role": "user", "content": "hi"}]},
        "stream_mode": ["custom"],
        **as_user("dora"),
    }
    with httpx.stream("POST", f"{server}/runs/stream", json=body, timeout=60) as stream:
        lines = [
            json.loads(line[6:])
            for line in stream.iter_lines()
            if line.startswith("data: {")
        ]
    assert [e["event"] for e in lines if "event" in e] == [
        "memory_recall",
        "memory_write",
    ]


@pytest.mark.parametrize(
    ("graph", "nodes"),
    [
        ("chatbot", ["recall", "chat", "write"]),
        ("studio", ["recall", "chat", "write"]),
        ("recall", ["recall"]),
        ("write", ["write"]),
    ],
)
def test_studio_sees_the_nodes(server: str, graph: str, nodes: list[str]) -> None:
    (assistant,) = post(f"{server}/assistants/search", graph_id=graph)
    drawn = httpx.get(f"{server}/assistants/{assistant['assistant_id']}/graph").json()
    shown = [node["id"] for node in drawn["nodes"] if not node["id"].startswith("__")]
    assert shown == nodes
    schemas = httpx.get(
        f"{server}/assistants/{assistant['assistant_id']}/schemas"
    ).json()
    assert "user_id" in schemas["context_schema"]["properties"]


def test_with_a_model_recall_is_a_graph_that_reasons(tmp_path: Path) -> None:
    """The model cannot be reached here: the steps are served, and the turn gets its context.

    Our store is the server's: it shares the directory with the graphs' memories, and outlives it.
    """
    nobody = {
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": f"http://127.0.0.1:{free_port()}/v1",
    }
    with served(
        tmp_path,
        store="graphs/store.py:store",
        LANGMEM_GRAPH_MODEL="openai:gpt-4o-mini",
        **nobody,
    ) as server:
        (assistant,) = post(f"{server}/assistants/search", graph_id="recall")
        drawn = httpx.get(
            f"{server}/assistants/{assistant['assistant_id']}/graph?xray=true"
        ).json()
        nodes = {node["id"].split(":")[-1] for node in drawn["nodes"]}
        assert {"route", "first_lookup", "counterfactual", "context"} <= nodes
        assert {"plan", "retrieve", "unify", "refine"} <= nodes
        loop = {
            (e["source"].split(":")[-1], e["target"].split(":")[-1])
            for e in drawn["edges"]
        }
        assert {("unify", "refine"), ("refine", "retrieve")} <= loop
        run(server, "write", "Our puppy chews on plants.", **as_user("ana"))
        end = run(
            server, "recall", "Where can I buy a plant for the puppy?", **as_user("ana")
        )
        assert "Our puppy chews on plants." in end["memory_context"]
        outcome = end["memory_recall"]
        assert outcome["reasoning"]["status"] == "exhausted"
        assert outcome["report"]["llm_calls"] > 0
        _look_at_studio(server)
        assert "route" not in end  # the steps' own state stays inside
        _put_and_find(server)
    with ChromaStore(tmp_path / "memory", embeddings="hash") as store:
        item = store.get(("mem", "u10"), "k")
        assert item is not None
        assert item.value == {"text": "u10 eats nuts"}


def _look_at_studio(server: str) -> None:
    """Every step is drawn by name; the thread shows what was recalled, also if the chat fails."""
    (assistant,) = post(f"{server}/assistants/search", graph_id="studio")
    drawn = httpx.get(
        f"{server}/assistants/{assistant['assistant_id']}/graph?xray=true"
    ).json()
    nodes = {node["id"] for node in drawn["nodes"]}
    steps = (
        "recall:goals:refine",
        "recall:counterfactual",
        "chat",
        "write:extraction:extract",
    )
    assert {*steps} <= nodes
    thread = post(f"{server}/threads")["thread_id"]
    run(server, "studio", "Which plants does the puppy chew?", thread, **as_user("ana"))
    state = httpx.get(f"{server}/threads/{thread}/state").json()["values"]
    assert "Our puppy chews on plants." in state["memory_context"]
    assert state["memory_recall"]["context"] == state["memory_context"]


def _put_and_find(server: str) -> None:
    for user in ("u1", "u10"):
        item = {
            "namespace": ["mem", user],
            "key": "k",
            "value": {"text": f"{user} eats nuts"},
        }
        httpx.put(f"{server}/store/items", json=item, timeout=60).raise_for_status()
    found = post(
        f"{server}/store/items/search", namespace_prefix=["mem", "u1"], query="nuts"
    )
    (only,) = found["items"]
    assert (only["value"]["text"], only["score"] > 0) == ("u1 eats nuts", True)
    listed = post(f"{server}/store/namespaces", prefix=["mem"])["namespaces"]
    assert listed == [["mem", "u1"], ["mem", "u10"]]


FLIGHT = {
    "name": "book_flight",
    "description": "Book a flight.",
    "parameters": {
        "type": "object",
        "properties": {
            "destination": {"type": "string"},
            "seat": {"type": "string", "description": "Seat the passenger wants."},
            "meal": {"type": "string", "default": "none"},
        },
        "required": ["destination", "seat"],
    },
}


def test_tool_calls_are_filled_over_http(tmp_path: Path) -> None:
    """The model is a server that quotes what it is shown; two users' seats differ."""

    def quote(prompt: str) -> dict[str, Any]:
        seat = re.search(r'(f\d+): .*"I always take (.+?), please', prompt)
        entries = [("destination", "Łódź", "f0", "to Łódź")]
        if seat:
            entries.append(("seat", seat.group(2), seat.group(1), seat.group(2)))
        return filling(*entries)

    with chat_server(ToolFill=quote, Extraction={"memories": []}) as url:
        reached = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": url}
        with served(
            tmp_path, LANGMEM_GRAPH_MODEL="openai:gpt-4o-mini", **reached
        ) as server:
            said = {"ana": "seat 14A by the window", "bo": "any seat on the aisle"}
            for user, seat in said.items():
                run(server, "write", f"I always take {seat}, please.", **as_user(user))
            asked = {
                "request": "Book a flight to Łódź with my usual seat",
                "tools": [FLIGHT],
            }
            for user, seat in said.items():
                done = post(
                    f"{server}/runs/wait",
                    assistant_id="grounding",
                    input=asked,
                    context={"user_id": user},
                )
                assert done["call"]["arguments"] == {
                    "destination": "Łódź",
                    "seat": seat,
                    "meal": "none",
                }
                assert set(done) == {"call"}
            unknown = post(
                f"{server}/runs/wait",
                assistant_id="grounding",
                input=asked,
                **as_user("cleo"),
            )
            assert [one["name"] for one in unknown["call"]["missing"]] == ["seat"]
            (assistant,) = post(f"{server}/assistants/search", graph_id="grounding")
            place = f"{server}/assistants/{assistant['assistant_id']}"
            drawn = httpx.get(f"{place}/graph").json()["nodes"]
            shown = [node["id"] for node in drawn if not node["id"].startswith("__")]
            assert shown == [
                "select_tool",
                "retrieve_slots",
                "fill",
                "verify",
                "look_again",
                "decide",
            ]
            schemas = httpx.get(f"{place}/schemas").json()
            assert "user_id" in schemas["context_schema"]["properties"]


def test_without_a_model_grounding_says_what_to_set(server: str) -> None:
    asked = {"request": "Book a flight", "tools": [FLIGHT]}
    done = post(
        f"{server}/runs/wait", assistant_id="grounding", input=asked, **as_user("ana")
    )
    assert "LANGMEM_GRAPH_MODEL" in done["__error__"]["message"]
