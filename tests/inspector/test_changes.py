"""What the inspector changes: correct, undo, forget, each shown before and after."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from langmem_graph import Memory
from tests.inspector.test_pages import page, words
from tests.support.inspected import ANA, BERLIN, PORTO, client, filled, record_of


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Memory]:
    with filled(tmp_path / "memory") as memory:
        yield memory


@pytest.fixture
def editor(own: Memory) -> TestClient:
    return client(own, allow_changes=True)


def send(editor: TestClient, action: str, status: int = 200, **fields: Any) -> str:
    csrf = re.search(r'name="csrf" value="(\w+)"', page(editor, "message", id="b"))[1]
    form = {"csrf": csrf, "user": ANA, "action": action, **fields}
    answer = editor.post("/change", data=form)
    assert answer.status_code == status, answer.text
    return words(answer.text)


def test_correct_and_undo(own: Memory, editor: TestClient) -> None:
    berlin = record_of(own, BERLIN)
    told = send(editor, "correct", record=berlin, text="The user lives in Bern.")
    assert "Corrected" in told
    assert "The user lives in Bern." in told
    assert own.user(ANA).get_records(berlin)[0].status == "superseded"
    bern = record_of(own, "The user lives in Bern.")
    assert "Undone" in send(editor, "undo", record=bern)
    assert own.user(ANA).get_records(berlin)[0].status == "active"
    assert "There is nothing to undo" in send(editor, "undo", 400, record=bern)
    send(editor, "correct", 400, record=berlin, text="  ")
    send(editor, "vanish", 400)


def test_what_a_message_caused_is_undone(own: Memory, editor: TestClient) -> None:
    porto = record_of(own, PORTO)
    assert "Undone" in send(editor, "undo", message="b")
    assert own.user(ANA).get_records(porto)[0].status == "active"


@pytest.mark.parametrize(
    "named", [{"message": "b"}, {"session": "new"}, {"record": BERLIN}]
)
def test_the_cascade_is_shown_before_and_is_what_happens(
    own: Memory, editor: TestClient, named: dict[str, str]
) -> None:
    if "record" in named:
        named = {"record": record_of(own, BERLIN)}
    ana, before = own.user(ANA), own.user(ANA).export_records(history=True)
    told = words(page(editor, "forget", **named))
    assert "Nothing was deleted yet." in told
    preview = ana.forget_preview(**named)
    assert ana.export_records(history=True) == before
    assert [one.text for one in preview.records] == [BERLIN]
    assert [one.text for one in preview.restored] == [PORTO]
    for one in (*preview.records, *preview.restored):
        assert one.text in told
    assert "Forgotten" in send(editor, "forget", **named)
    after = ana.export_records(history=True)
    assert {row["text"] for row in before} - {row["text"] for row in after} == {BERLIN}
    assert ana.get_records(record_of(own, PORTO))[0].status == "active"
    assert page(editor, "forget", 404, **named)


def test_a_preview_says_what_forget_reports(own: Memory) -> None:
    ana = own.user(ANA)
    preview = ana.forget_preview(message="b").report
    done = ana.forget(message="b")
    assert preview == done.model_copy(update={"traces_left": preview.traces_left})
    assert ana.forget_preview(message="b").report.messages == 0


def test_what_was_forgotten_is_counted_between_two_dates(own: Memory) -> None:
    ana = own.user(ANA)
    ana.forget(message="b")
    found = ana.compare("2026-01-01", "2100-01-01")
    assert (found.forgotten_messages, found.forgotten_records) == (1, 1)
    told = words(page(client(own), "compare", first="2026-01-01", second="2100-01-01"))
    assert (
        "1 messages and 1 records that were stored in between have been forgotten"
        in told
    )
