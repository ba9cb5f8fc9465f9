"""What an application never wants to keep is in no file, no prompt and no log."""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory
from langmem_graph.schemas import Record
from tests.conftest import said
from tests.support.models import steady_model
from tests.support.traces import hits

SECRET = "xyzzy4111"


def hidden(text: str) -> str:
    if "fail" in text:
        raise ValueError(text)
    return re.sub(SECRET, "[hidden]", text).replace("nothing but this", "")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(
        tmp_path / "m", embeddings="hash", model=steady_model(), redact=hidden
    ) as opened:
        yield opened


def test_a_secret_is_in_no_file_prompt_or_log(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    ana = memory.user("ana")
    call: Any = {"name": "pay", "args": {"card": [SECRET, 1]}, "id": "c1"}
    ana.add(
        [
            said(f"My card is {SECRET}.", id="m1"),
            AIMessage(f"Paid with {SECRET}.", tool_calls=[call], name=f"bot {SECRET}"),
            said(f"{SECRET}-b"),
        ],
        session_id="s",
    )
    ana.remember(f"The other card is {SECRET}.")
    told: Any = {"origin": "assistant", "quote": f"card is {SECRET}", "session_id": "s"}
    ana.remember(f"Noted by an agent: {SECRET}.", **told)
    row = {
        "text": f"Card {SECRET}.",
        "source_message_ids": ["m1"],
        "entities": [SECRET],
    }
    (record_id,) = ana.add_records(row).stored
    ana.correct(record_id, f"Not {SECRET}.")
    elsewhere = ana.get_records(record_id)[0].model_dump() | {"text": f"Once {SECRET}."}
    ana.add_records([Record(**{**elsewhere, "record_id": "r9", "superseded_by": []})])
    ana.flush()
    texts = [message["content"] for message in ana.export()]
    assert "My card is [hidden]." in texts
    assert SECRET not in json.dumps(
        [ana.export(), ana.export_records(history=True)], default=str
    )
    memory.close()
    assert memory.path is not None
    assert hits(memory.path, [SECRET]) == []
    assert SECRET not in caplog.text


def test_what_cannot_be_redacted_is_rejected_without_its_words(memory: Memory) -> None:
    ana = memory.user("ana")
    report = ana.add(
        [said("fail 4711"), said("nothing but this"), said("fine")], session_id="s"
    )
    assert len(report.stored) == 1
    reasons = [one.reason for one in report.rejected]
    assert reasons[0] == "redact failed: ValueError; nothing is stored"
    assert "left no text" in reasons[1]
    with pytest.raises(InvalidInputError, match="redact failed"):
        ana.remember("fail again")
    assert [message["content"] for message in ana.export()] == ["fine"]


def test_it_must_be_a_function(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="redact must be a function"):
        Memory(tmp_path, redact="card")  # type: ignore[arg-type]


def test_keys_of_arguments_and_of_forms_are_redacted(memory: Memory) -> None:
    ana = memory.user("ana")
    call: Any = {"name": "pay", "args": {SECRET: {SECRET: 1}, "n": [{SECRET: 2}]}}
    answer = {"role": "assistant", "content": "Paid.", "id": "m1"}
    ana.add({**answer, "tool_calls": [{**call, "id": "c1"}]}, session_id="s")
    row = {"text": "A card.", "source_message_ids": ["m1"]}
    assert ana.add_records({**row, "data": {"Card": {SECRET: "x"}}}).stored
    assert memory.path is not None
    assert hits(memory.path, [SECRET]) == []
    (stored,) = ana.get_conversation(["m1"])
    args = stored.tool_calls[0]["args"]
    assert args == {"[hidden]": {"[hidden]": 1}, "n": [{"[hidden]": 2}]}


def test_keys_that_become_the_same_lose_nothing(memory: Memory) -> None:
    ana = memory.user("ana")
    args = {f"a {SECRET}": 1, "a [hidden]": 2, f"{SECRET}": 3}
    call: Any = {"name": "pay", "args": args, "id": "c1"}
    answer = {"role": "assistant", "content": "Paid.", "id": "m1"}
    ana.add({**answer, "tool_calls": [call]}, session_id="s")
    (stored,) = ana.get_conversation(["m1"])
    kept = {"a [hidden]": 1, "a [hidden] 2": 2, "[hidden]": 3}
    assert stored.tool_calls[0]["args"] == kept
