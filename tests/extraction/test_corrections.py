"""All 80 pairs through the whole write path: a model that wants every older record superseded."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent

from langmem_graph.memory import Memory
from langmem_graph.middleware import MemoryMiddleware
from langmem_graph.settings import ExtractionSettings, Settings
from langmem_graph.testing import ScriptedChatModel
from tests.conftest import said
from tests.support.corrections import pairs
from tests.support.models import AnswersBySchema
from tests.support.writing import echo, memories, memory_at, turn

UPDATE = {"decisions": [{"record": "r1", "action": "update", "targets": ["n1"]}]}
FIELDS = ("text", "subject", "attribute", "kind", "entities")


@pytest.fixture
def open_memory(tmp_path: Path) -> Iterator[Callable[..., Memory]]:
    with memory_at(tmp_path / "m") as opening:
        yield opening


def superseded(memory: Memory, model: Any, pair: dict[str, Any]) -> bool:
    """Whether the pair's older record is no longer true after the newer one was said."""
    old, new = pair["old"], pair["new"]
    user = memory.user(pair["id"])
    user.add(said(old["text"], id="old"), session_id="s1", at=old.get("valid_from", "2025-03-01"))
    user.add_records(
        {
            **{name: old[name] for name in FIELDS if name in old},
            "source_message_ids": ["old"],
            "record_id": "old",
            "confirmation": old.get("confirmation", "confirmed"),
        }
    )
    given = {name: new[name] for name in FIELDS if new.get(name) is not None}
    row = {"subject": "", **given, "sources": ["m1"]}
    proposed = memories(row | {"draft": new.get("confirmation") == "draft"})
    model.answers["Extraction"] = lambda q: (
        proposed if pair["said"][:40] in q.split("New messages")[1] else memories()
    )
    names = [name for name in pair["user_names"] if name.casefold() not in ("user", "i", "me")]
    talk = said(pair["said"], id="new", **({"name": names[0]} if names else {}))
    user.add(talk, session_id="s2", at=new.get("valid_from", "2025-06-01"))
    report = user.flush()
    assert report.read == 2
    assert report.stored + report.updated == 1, report
    return user.get_records("old")[0].status == "superseded"


@pytest.mark.long
def test_what_a_model_proposes_for_all_pairs(open_memory: Any) -> None:
    model = AnswersBySchema(Reconciliation=UPDATE)
    memory = open_memory(model, extraction__neighbour_floor=-1.0)
    results = [
        (pair["supersedes"], superseded(memory, model, pair)) for pair in pairs("corrections")
    ]
    assert len(results) == 80
    assert sum(happened for meant, happened in results if not meant) == 0
    assert sum(happened for meant, happened in results if meant) >= 38


@pytest.mark.parametrize("extraction", ["inline", "background"])
def test_recalled_memory_in_a_prompt_becomes_no_record(tmp_path: Path, extraction: Any) -> None:
    """The same questions over and over, each prompt full of recalled memory."""
    settings = Settings(extraction=ExtractionSettings(debounce_seconds=0))
    with Memory(
        tmp_path / "m", model=AnswersBySchema(Extraction=echo), embeddings="hash", settings=settings
    ) as memory:
        ana = memory.user("ana")
        ana.add(turn("My locker code is 4711."), session_id="old")
        ana.flush()
        before = len(ana.export_records())
        chat = ScriptedChatModel(script=["It is in your memory."])
        bot = create_agent(chat, middleware=[MemoryMiddleware(memory, extraction=extraction)])
        for number in range(6):
            where = {"configurable": {"user_id": "ana", "thread_id": f"t{number}"}}
            bot.invoke({"messages": [("user", "What is my locker code?")]}, where)
        ana.flush()
        records = ana.export_records()
        assert "4711" in str(chat.requests[-1][0].content)
    assert sum("4711" in record["text"] for record in records) == before
    assert len(records) == before + 1  # the question itself, which this model takes for a memory


def test_read_your_writes(tmp_path: Path) -> None:
    with Memory(
        tmp_path / "m", model=AnswersBySchema(Extraction=echo), embeddings="hash"
    ) as memory:
        memory.user("ana").add(turn("I own a boat."), session_id="s")
        chat = ScriptedChatModel()
        bot = create_agent(chat, middleware=[MemoryMiddleware(memory, read_your_writes=True)])
        where = {"configurable": {"user_id": "ana", "thread_id": "t"}}
        bot.invoke({"messages": [("user", "Boat?")]}, where)
        assert any("I own a boat" in r["text"] for r in memory.user("ana").export_records())


BAD = ["prose", "null", RuntimeError("down"), {"pairs": [{"cause": "r1", "effect": "r1"}]}]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_a_bad_causal_answer_links_nothing_and_loses_nothing(open_memory: Any, bad: Any) -> None:
    ana = open_memory(
        AnswersBySchema(Extraction=echo, CausalPairs=bad), extraction__cluster_max_distance=1.5
    ).user("ana")
    ana.add([*turn("The boat hit a rock."), *turn("The boat leaks.", number=2)], session_id="s")
    report = ana.flush()
    assert (report.stored, report.causes, report.pending) == (2, 0, 0)
