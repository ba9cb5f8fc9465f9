"""Each model call is noted, the notes survive as JSON, and they are logged beside the work."""

import asyncio
import json
import logging
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from pydantic import TypeAdapter

from langmem_graph import Memory
from langmem_graph.llm import answer_schemas
from langmem_graph.llm.answer_schemas import Extraction, Reconciliation
from langmem_graph.llm.structured_calls import PURPOSES, Limits, ModelRunner, RunUsage
from langmem_graph.reports import CallNote
from langmem_graph.storage import call_log
from langmem_graph.testing import ScriptedChatModel
from tests.support.files import folder

GOOD = {"text": "The user lives in Porto.", "sources": ["m1"]}


def usage_of(*answers: Any) -> RunUsage:
    """The usage of one question with these answers in turn."""
    model = ScriptedChatModel(answers={"Extraction": list(answers)})
    usage = RunUsage()
    runner = ModelRunner(model, None, Limits(4, 100_000, 20), "estimated")
    asyncio.run(runner.ask(Extraction, "rules", "question", usage))
    return usage


def note(**fields: Any) -> CallNote:
    made: dict[str, Any] = {
        "purpose": "extract", "model": "m", "input_tokens": 1, "output_tokens": 2,
        "tokens_exact": True, "milliseconds": 3.0, "repair": False, "problem": None,
        "refused": [], "at": datetime(2026, 3, 5, 18, 30, tzinfo=UTC),
    }  # fmt: skip
    return CallNote(**{**made, **fields})


def test_each_call_is_noted() -> None:
    before = datetime.now(UTC)
    first, second = usage_of("prose of Porto", {"memories": [GOOD, {}]}).calls_made
    assert (first.purpose, first.model, first.repair) == (
        "extract",
        "ScriptedChatModel",
        False,
    )
    assert (first.input_tokens, first.output_tokens, first.tokens_exact) == (
        10,
        5,
        True,
    )
    assert first.milliseconds > 0
    assert before <= first.at <= second.at <= datetime.now(UTC)
    assert "not in the schema" in str(first.problem)
    assert (second.repair, second.problem) == (True, None)
    assert second.refused[0].startswith("memories[1]")


@pytest.mark.parametrize(
    "answer",
    [
        "My secret is in Porto",
        {"memories": [{"text": "My secret"}]},
        ValueError("secret"),
    ],
)
def test_a_note_repeats_no_word_of_an_unusable_answer(answer: Any) -> None:
    for made in usage_of(answer).calls_made:
        assert made.problem
        assert "secret" not in f"{made.problem} {made.refused}"


def test_tokens_are_noted_as_estimates_where_the_server_counts_none() -> None:
    model = ScriptedChatModel(script=[""])
    raw = {
        "raw": AIMessage("no"),
        "parsed": Extraction(memories=[]),
        "parsing_error": None,
    }
    made = SimpleNamespace(invoke=lambda *_: raw)
    object.__setattr__(model, "with_structured_output", lambda *_, **__: made)
    usage = RunUsage()
    runner = ModelRunner(model, None, Limits(4, 100_000, 20), "estimated")
    asyncio.run(runner.ask(Extraction, "rules", "question", usage))
    assert usage.calls_made[0].tokens_exact is False
    assert usage.calls_made[0].input_tokens == usage.input_tokens > 10


@pytest.mark.parametrize(
    ("fields", "name"),
    [({"model_name": "gpt-x"}, "gpt-x"), ({"model": "claude-y"}, "claude-y"),
     ({"model_name": "", "model": "z"}, "z"), ({"model": 5}, "SimpleNamespace")],
)  # fmt: skip
def test_the_name_of_the_model(fields: dict[str, Any], name: str) -> None:
    model: Any = SimpleNamespace(**fields)
    assert ModelRunner(model, None, Limits(1, 1, 1), "estimated").model_name == name


def test_every_purpose_is_that_of_a_schema() -> None:
    assert set(PURPOSES) <= set(vars(answer_schemas))
    assert len(set(PURPOSES.values())) == len(PURPOSES)


def test_usage_survives_as_json_and_its_copies_are_apart() -> None:
    usage = usage_of("prose", {"memories": [GOOD, {}]})
    adapter = TypeAdapter(RunUsage)  # as graphs with JSON state keep it
    kept = json.loads(json.dumps(adapter.dump_python(usage, mode="json")))
    assert adapter.validate_python(kept) == usage
    copy = usage.copy()
    copy.add(usage)
    assert copy == usage + usage
    assert len(copy.calls_made) == 2 * len(usage.calls_made) == 4
    assert (copy.calls, copy.input_tokens) == (2 * usage.calls, 2 * usage.input_tokens)


def test_a_step_adds_what_it_refused() -> None:
    usage = RunUsage(
        calls_made=[note(), note(purpose="reconcile"), note(refused=["a"])]
    )
    usage.note_refused(Extraction, ["b", "c"])
    usage.note_refused(Reconciliation, ["d"])
    assert [made.refused for made in usage.calls_made] == [[], ["d"], ["a", "b", "c"]]


# --- the log --------------------------------------------------------------------------------------


def logged(memory: Memory, user: str = "ana") -> list[tuple[Any, ...]]:
    """Purpose, repair, problem and messages of the calls in the ledger."""
    query = (
        "SELECT purpose, repair, problem, (SELECT count(*) FROM call_messages WHERE call = n)"
        " FROM calls ORDER BY n"
    )
    with closing(sqlite3.connect(folder(memory, user) / "ledger.db")) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture
def model() -> ScriptedChatModel:
    return ScriptedChatModel(answers={"Extraction": ["prose", {"memories": []}]})


@pytest.fixture
def told(tmp_path: Path, model: ScriptedChatModel) -> Any:
    with Memory(tmp_path / "m", model=model, embeddings="hash") as memory:
        user = memory.user("ana")
        user.add(
            [("user", "I live in Porto."), ("assistant", "I see.")], session_id="s"
        )
        yield memory


def test_the_calls_of_a_flush_are_logged_with_the_messages_they_read(
    told: Memory,
) -> None:
    assert told.user("ana").flush().status == "ok"
    first, second, *_ = logged(told)
    assert (first[0], first[1], first[3]) == ("extract", 0, 2)
    assert "not in the schema" in first[2]
    assert second == ("extract", 1, None, 2)


def test_the_calls_of_a_recall_and_of_a_grounded_call_are_logged(told: Memory) -> None:
    user = told.user("ana")
    user.recall("Where do I live?", mode="fast")
    assert logged(told) == []
    report = user.recall("Where do I live?", mode="reason").report
    assert [row[0] for row in logged(told)][:1] == ["plan"]
    assert len(logged(told)) == report.llm_calls
    tool = {"name": "move", "parameters": {"properties": {"city": {"type": "string"}}}}
    user.ground(tool, "Book a move from home")
    assert logged(told)[-1][0] == "fill"


def test_a_log_that_cannot_be_written_fails_nobody(
    told: Memory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*_: Any) -> None:
        raise RuntimeError("secret words")

    monkeypatch.setattr(call_log, "write_calls", failing)
    with caplog.at_level(logging.WARNING):
        assert told.user("ana").flush().status == "ok"
        assert (
            told.user("ana").recall("Where do I live?", mode="reason").report.llm_calls
            > 0
        )
    lines = [line for line in caplog.messages if "could not be logged" in line]
    assert len(lines) >= 2
    assert "secret" not in caplog.text


def test_nothing_is_logged_for_a_stranger_or_a_read_only_memory(told: Memory) -> None:
    services = told._services
    services.log_calls("nobody", [note()])
    assert not services.directory.has("nobody")
    services.log_calls("ana", [])
    services.read_only = True
    services.log_calls("ana", [note()])
    services.read_only = False
    assert logged(told) == []
