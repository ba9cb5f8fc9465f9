"""Records made by hand, forgetting, and undoing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select

from langmem_graph.storage import graph_neighbours
from langmem_graph.storage.tables import RECORDS, records, vectors
from langmem_graph.storage.vector_rows import centroids
from langmem_graph.view import own_view
from tests.support.models import AnswersBySchema
from tests.support.topic_tracks import PROFILE, active, gather
from tests.support.writing import echo, line_aliases, memories, turn


def test_remember_by_hand(open_memory: Any) -> None:
    model = AnswersBySchema(Extraction=echo)
    ana = open_memory(model).user("ana")
    record = ana.remember("My locker code is 4711.")
    assert record.made_by == "user"
    assert ana.get_conversation(record.message_ids)[0].text == "My locker code is 4711."
    for text in ("My bike is blue.", "My car is red."):
        ana.remember(text)
    assert ana.flush().read == 0
    assert [step for step, _ in model.asked] == ["CausalPairs", "TopicRound"]
    assert ana.search_records("locker code")[0].record_id == record.record_id


CANARIES = ("quokka9931", "zebrafish7742", "okapi5513")


def test_forgetting_a_message_takes_everything_made_of_it(
    open_memory: Any, tmp_path: Path
) -> None:
    ana = open_memory(AnswersBySchema(Extraction=echo)).user("ana")
    talk = [
        {"role": "user", "content": f"I keep a {c} at home.", "id": c} for c in CANARIES
    ]
    ana.add(talk, session_id="s", at="2025-01-01")
    ana.flush()
    report = ana.forget(message="zebrafish7742")
    assert (report.messages, report.records) == (1, 1)
    assert not any(
        "zebrafish" in h.text for h in ana.search_records("keep at home", k=9)
    )
    assert [m["id"] for m in ana.export()] == ["quokka9931", "okapi5513"]
    assert ana.search_conversation("quokka9931")[0].message_id == "quokka9931"
    assert ana.doctor(sample=0).ok
    files = [f.read_bytes() for f in (tmp_path / "m").rglob("*") if f.is_file()]
    assert any(b"okapi" in content for content in files)
    assert not any(b"zebrafish" in content for content in files)


def test_only_what_people_said_is_read_again(open_memory: Any) -> None:
    ana = open_memory(AnswersBySchema(Extraction=echo)).user("ana")
    looked_up = {"role": "tool", "content": "Gate 7.", "id": "t"}
    ana.add([*turn("Which gate?"), looked_up], session_id="s")
    asked, answered, _ = (row["id"] for row in ana.export())
    ana.add_records([{"text": "Gate 7.", "source_message_ids": [asked, answered, "t"]}])
    assert ana.forget(message=asked).read_again == 1


def test_what_else_a_forgotten_record_rested_on_is_read_again(open_memory: Any) -> None:
    model = AnswersBySchema(Extraction=echo)
    ana = open_memory(model).user("ana")
    told = [
        {"role": "user", "content": f"I row in {n}.", "id": n} for n in ("May", "June")
    ]
    ana.add(told, session_id="s")
    ana.flush()
    ana.add_records({"text": "Rows in summer.", "source_message_ids": ["May", "June"]})
    assert ana.forget(message="May").read_again == 1
    assert ana.flush().read == 1
    assert "I row in June." in model.asked[-1][1]


def test_a_session_is_found_by_the_messages_that_it_has_left(open_memory: Any) -> None:
    memory = open_memory(None)
    for user in ("ana", "bob"):
        texts = ["I row on Sundays.", "The cat is grey."] + ["Taxes are due."] * (
            user == "ana"
        )
        talk = [{"role": "user", "content": text, "id": text} for text in texts]
        memory.user(user).add(talk, session_id="s")
    memory.user("ana").forget(message="Taxes are due.")
    held = [
        memory._services.read(own_view(user), lambda c: centroids(c, [1]), None)
        for user in ("ana", "bob")
    ]
    assert held[0].sessions.tolist() == held[1].sessions.tolist() == [1]
    assert held[0].matrix == pytest.approx(held[1].matrix, abs=1e-6)


def test_forgetting_what_took_a_place_gives_it_back(open_memory: Any) -> None:
    ana = open_memory(None).user("ana")
    ana.add(
        [{"role": "user", "content": f"home {n}", "id": str(n)} for n in range(2)],
        session_id="s",
    )
    rows = [
        {"text": f"Lives at {n}.", "source_message_ids": [str(n)], "record_id": f"r{n}"}
        for n in range(2)
    ]
    ana.add_records([rows[0], {**rows[1], "supersedes": ["r0"]}])
    assert ana.get_records("r0")[0].status == "superseded"
    assert ana.forget(record="r1").restored == 1
    assert ana.get_records("r0")[0].status == "active"
    assert ana.get_records("r1") == []
    assert ana.forget(session="s").messages == 1  # the other went with its record
    assert not ana.search_records("lives")
    assert ana.export() == []


def chain(ana: Any, length: int) -> None:
    """r0 ← r1 ← r2 …, each superseding the one before."""
    numbers = range(length)
    said = [{"role": "user", "content": f"home {n}", "id": str(n)} for n in numbers]
    ana.add(said, session_id="s")
    for n in numbers:
        row = {
            "text": f"Lives at {n}.",
            "source_message_ids": [str(n)],
            "record_id": f"r{n}",
        }
        row |= {
            "valid_from": f"2025-0{n + 1}-01",
            "supersedes": [f"r{n - 1}"] if n else [],
        }
        assert ana.add_records(row).stored == [f"r{n}"]


def test_forgetting_the_middle_of_a_chain(open_memory: Any) -> None:
    ana = open_memory(None).user("ana")
    chain(ana, 3)
    ana.forget(record="r1")
    assert active(ana) == ["r2"]
    ana.forget(record="r2")
    assert active(ana) == ["r0"]


def test_a_forgotten_record_leaves_no_vector(open_memory: Any) -> None:
    memory = open_memory(None)
    chain(memory.user("ana"), 2)
    memory.user("ana").forget(record="r0")
    rest = select(vectors.c.item).where(vectors.c.layer == RECORDS)
    assert memory._services.read(
        own_view("ana"), lambda c: c.scalars(rest).all(), None
    ) == [2]


def test_no_record_stays_in_a_cluster_that_is_gone(open_memory: Any) -> None:
    memory = open_memory(None)
    chain(memory.user("ana"), 2)
    with (
        memory._services.room("ana") as room,
        room.database.write_transaction() as connection,
    ):
        held = graph_neighbours.all_clusters(connection)
        for place, n in ((-1, 1), (0, 2)):
            graph_neighbours.join(
                connection, held, place, n, np.eye(1, 256, dtype="float32")[0]
            )
    memory.user("ana").forget(record="r0")
    clustered = select(records.c.n).where(records.c.cluster.is_not(None))
    assert (
        memory._services.read(
            own_view("ana"), lambda c: c.scalars(clustered).all(), None
        )
        == []
    )


def test_undoing_and_forgetting_in_any_order(open_memory: Any) -> None:
    ana = open_memory(None).user("ana")
    chain(ana, 3)
    ana.undo("r2")
    assert active(ana) == ["r1"]
    newer = {"text": "Lives at 9.", "source_message_ids": ["2"], "record_id": "r9"}
    ana.add_records({**newer, "supersedes": ["r1"]})
    ana.forget(record="r9")
    assert active(ana) == ["r1"]
    ana.forget(record="r2")
    fresh = ana.remember("The gate is green.")
    assert ana.undo(fresh.record_id)
    again = ana.remember("The gate is green.")
    assert again.status == "active"
    assert ana.search_records("gate green")[0].record_id == again.record_id


def test_an_export_after_an_undo_is_imported_as_it_was(open_memory: Any) -> None:
    memory = open_memory(None)
    chain(memory.user("ana"), 3)
    memory.user("ana").undo("r2")
    bob = memory.user("bob")
    for row in memory.user("ana").export():
        bob.add(
            {k: v for k, v in row.items() if k != "session_id"},
            session_id=row["session_id"],
        )
    assert not bob.add_records(memory.user("ana").export_records(history=True)).rejected
    assert active(bob) == active(memory.user("ana")) == ["r1"]


@pytest.mark.parametrize("step", ["Extraction", "TopicRound", "ProfileText"])
@pytest.mark.parametrize("how", ["forget", "erase"])
def test_what_is_forgotten_during_a_flush_does_not_come_back(
    open_memory: Any, tmp_path: Path, step: str, how: str
) -> None:
    answers: dict[str, Any] = {
        "Extraction": echo,
        "TopicRound": gather,
        "ProfileText": PROFILE,
    }
    usual, meddled = answers[step], list[str]()

    def meddle(question: str) -> Any:
        answer = usual(question) if callable(usual) else usual
        meddled.append(question)
        if how == "erase":
            ana.erase()
        else:
            ana.forget(message="m1")
        return answer

    ana = open_memory(AnswersBySchema(**{**answers, step: meddle})).user("ana")
    said, answered = turn("I keep a zebrafish7742 at home.")
    ana.add([{**said, "id": "m1"}, {**answered, "id": "m2"}], session_id="s")
    for number, text in enumerate(["I own a boat.", "I own a car."], 1):
        ana.add(turn(text, number=number), session_id="s")
    ana.flush()
    assert meddled
    assert not any("topics" in name for name in ana.files())
    ana.add(turn("Something else.", number=2), session_id="s2")
    files = [f for f in (tmp_path / "m").rglob("*") if f.is_file()]
    assert [f.name for f in files if b"zebrafish" in f.read_bytes()] == []


def test_what_was_shown_and_then_forgotten_is_in_no_new_record(
    open_memory: Any,
) -> None:
    """The record is of no message of the batch, but the model has seen it."""
    forgotten: list[Any] = []

    def meddle(question: str) -> Any:
        if "boat" not in question or forgotten:
            return echo(question)
        forgotten.append(ana.forget(record="r1"))
        [alias] = [
            one for one, words in line_aliases(question).items() if "boat" in words
        ]
        return memories({"text": "The zebrafish7742 has a boat.", "sources": [alias]})

    ana = open_memory(AnswersBySchema(Extraction=meddle)).user("ana")
    ana.add(turn("Hello."), session_id="s")
    ana.flush()
    source = ana.export()[0]["id"]
    ana.add_records(
        [
            {
                "record_id": "r1",
                "text": "A zebrafish7742.",
                "source_message_ids": [source],
            }
        ]
    )
    ana.add(turn("I own a boat.", number=1), session_id="s")
    ana.flush()
    assert [report.records for report in forgotten] == [1]
    texts = [record["text"] for record in ana.export_records()]
    assert any("boat" in text for text in texts)
    assert not any("zebrafish" in text for text in texts)


def test_a_batch_that_another_run_took_over_is_stored_by_that_run_alone(
    open_memory: Any,
) -> None:
    def meddle(question: str) -> Any:
        with (
            memory._services.room("ana") as room,
            room.database.write_transaction() as ledger,
        ):
            ledger.exec_driver_sql(
                "UPDATE unread SET claimed_by = 'another', claimed_until = 1e12"
            )
        return echo(question)

    memory = open_memory(AnswersBySchema(Extraction=meddle))
    ana = memory.user("ana")
    ana.add(turn("I own a boat."), session_id="s")
    assert ana.flush().stored == 0
    assert ana.export_records() == []
