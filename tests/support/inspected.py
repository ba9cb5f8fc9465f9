"""A memory with something on every page of the inspector, and clients of its pages."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from langmem_graph import Memory
from langmem_graph.inspector import create_inspector
from langmem_graph.testing import ScriptedChatModel, alias_of
from tests.conftest import let_go

ANA = "ana/ö ?&#"
"""An id that has to be escaped wherever it stands in an address."""
PORTO, BERLIN = "The user lives in Porto.", "The user lives in Berlin."
HOSTILE = {
    "script": "<script>document.title = 'pwned'</script>",
    "onerror": "<img src=x onerror=\"document.title = 'pwned'\">",
    "link": "<a href=\"javascript:document.title='pwned'\">click</a> javascript:alert(1)",
    "rtl": "invoice \u202egnp.exe\u202c שלום עולם",
    "breaking": "\"'></blockquote></main><h1>pwned</h1>{{ 7 * 7 }}{% raw %}",
}
DENTIST = {"start": "2026-03-05T10:00:00Z", "granularity": "minute"}
DAYS = "since=2026-03-01&until=2026-03-31"


def _extract(question: str) -> dict[str, Any]:
    def alias(words: str, kind: str = "m") -> str | None:
        try:
            return alias_of(question, words, kind)
        except LookupError:
            return None

    memories, changes = [], []
    for words, text in (
        ("in Porto", PORTO),
        ("to Berlin", BERLIN),
        ("a cat", "Ana has a cat."),
    ):
        if own := alias(words):
            memories.append({"text": text, "attribute": text[:12], "sources": [own]})
    older, by = alias("lives in Porto", "n"), alias("to Berlin")
    if older and by:
        own = {"record": older, "by": 0, "message": by, "quote": "I moved to Berlin"}
        changes = [
            {**own, "relation": "replaces"},
            {**own, "relation": "ended", "quote": "never"},
        ]
    return {"memories": memories, "changes": changes}


def _gather(question: str) -> dict[str, Any]:
    lines = question.split("Changed records:\n")[1].splitlines()
    about = {
        "name": "home",
        "title": "Home",
        "summary": "Where Ana lives.",
        "narrative": "Berlin.",
    }
    return {"tracks": [{**about, "evidence": [line.split(": ")[0] for line in lines]}]}


def scripted() -> ScriptedChatModel:
    """Reads where Ana lives and her cat; answers every question with what it is shown first."""
    plan = {
        "intent": "act",
        "facts": ["f1"],
        "sure": True,
        "against": [{"fact": "f1", "why": "Ana has moved."}],
    }
    answers = {
        "Extraction": _extract,
        "TopicRound": _gather,
        "ProfileText": {"text": "Lives in Berlin.", "topics": ["home"]},
        "GoalPlan": plan,
    }
    return ScriptedChatModel(answers=answers, record=False)


def fill(memory: Memory) -> Any:
    """Ana's memory: a move that replaced a record, hostile texts, two appointments at once."""
    ana = memory.user(ANA)
    ana.add(
        [_said("p", "I live in Porto.", "2026-01-01"), _said("c", "I have a cat.")],
        **_in("old"),
    )
    ana.flush()
    ana.add([_said("b", "I moved to Berlin last week.", "2026-02-01")], **_in("new"))
    ana.flush()
    ana.add(
        [_said(name, text) for name, text in HOSTILE.items()], **_in("<b>hostile</b>")
    )
    rows = [
        {"text": text, "source_message_ids": [name]} for name, text in HOSTILE.items()
    ]
    timed = {"facet": "schedule", "kind": "event", "source_message_ids": ["c"]}
    rows += [
        {**timed, "record_id": f"e{n}", "text": text, "event_time": DENTIST}
        for n, text in enumerate(
            ("Ana sees the dentist.", "Ana has the cat vaccinated.")
        )
    ]
    report = ana.add_records(rows)
    assert not report.rejected, report
    return ana


def _said(name: str, text: str, at: str = "2026-01-02") -> dict[str, Any]:
    return {"role": "user", "content": text, "id": name, "at": at}


def _in(session: str) -> dict[str, Any]:
    return {"session_id": session}


@contextmanager
def filled(place: Path, **options: Any) -> Iterator[Memory]:
    memory = Memory(place, embeddings="hash", model=scripted(), **options)
    fill(memory)
    yield memory
    let_go(memory)


def client(memory: Memory, **options: Any) -> TestClient:
    return TestClient(create_inspector(memory, **options), base_url="http://127.0.0.1")


def record_of(memory: Memory, text: str) -> str:
    """The id of the record with this text, which may hold no longer."""
    rows = memory.user(ANA).export_records(history=True)
    return next(row["record_id"] for row in rows if row["text"] == text)
