"""Clusters and semantic edges after each batch; causes once, at the end of a session or a flush."""

import re
from typing import Any

import pytest
from sqlalchemy import select

from langmem_graph.extraction import link_records
from langmem_graph.storage import vector_rows
from langmem_graph.storage.reading import EVERYTHING
from langmem_graph.storage.tables import RECORDS, links
from tests.support.models import AnswersBySchema
from tests.support.writing import echo, turn

ROCK = ("The boat hit a rock.", "The boat leaks.", "The sea was calm.")


def aliases(question: str) -> dict[str, str]:
    """The records in a question about causes, by their words."""
    lines = re.findall(
        r'^(r\d+): \S+ "(?:The user said: )?(.*)"$', question, re.MULTILINE
    )
    return {words: alias for alias, words in lines}


def pair(cause: str, effect: str, **fields: Any) -> Any:
    """An answer that names one pair, by words of its two records."""

    def answer(question: str) -> dict[str, Any]:
        shown = aliases(question)
        named = {"cause": shown.get(cause, cause), "effect": shown.get(effect, effect)}
        return {
            "pairs": [{"mechanism": "it made a hole", "sure": "yes", **named, **fields}]
        }

    return answer


def reading(**answers: Any) -> AnswersBySchema:
    return AnswersBySchema(
        **({"Extraction": echo, "TopicRound": {"tracks": []}} | answers)
    )


def tell(user: Any, texts: tuple[str, ...], session: str, day: int = 1) -> None:
    for n, text in enumerate(texts):
        user.add(turn(text, number=n), session_id=session, at=f"2025-01-{day + n:02}")


def causal_edges(memory: Any) -> dict[tuple[str, str], float]:
    """Texts of cause and effect of each causal edge, and its weight."""
    ana = memory.user("ana")
    texts = {
        n: row["text"] for n, row in enumerate(ana.export_records(history=True), 1)
    }
    with (
        memory._services.room("ana") as room,
        room.database.read_transaction(EVERYTHING) as connection,
    ):
        rows = connection.execute(
            select(links.c.source, links.c.target, links.c.weight).filter_by(
                kind="causal"
            )
        )
        return {(texts[r.source][15:], texts[r.target][15:]): r.weight for r in rows}


def asked(model: AnswersBySchema) -> list[str]:
    return [question for name, question in model.asked if name == "CausalPairs"]


def test_a_cause_is_the_earlier_of_the_two_whatever_the_model_says(
    open_memory: Any,
) -> None:
    memory = open_memory(reading(CausalPairs=pair(ROCK[1], ROCK[0])))
    ana = memory.user("ana")
    tell(ana, ROCK, "s")
    assert ana.flush().causes == 1
    assert causal_edges(memory) == {(ROCK[0], ROCK[1]): 1.0}


@pytest.mark.parametrize(
    ("sure", "floor", "weight"),
    [
        ("yes", None, 1.0),
        ("maybe", None, None),
        ("maybe", 0.4, 0.5),
        ("no", -1.0, None),
    ],
)
def test_an_edge_has_the_weight_of_how_sure_the_model_is(
    open_memory: Any, sure: str, floor: float | None, weight: float | None
) -> None:
    model = reading(CausalPairs=pair(ROCK[0], ROCK[1], sure=sure))
    memory = open_memory(model, extraction__causal_floor=floor)
    ana = memory.user("ana")
    tell(ana, ROCK, "s")
    ana.flush()
    expected = {} if weight is None else {(ROCK[0], ROCK[1]): weight}
    assert causal_edges(memory) == expected


@pytest.mark.parametrize(
    ("cause", "effect"), [("r1", "r99"), ("r1", "r1"), ("x", "r1")]
)
def test_a_pair_that_was_not_shown_is_left_out(
    open_memory: Any, cause: str, effect: str
) -> None:
    memory = open_memory(reading(CausalPairs=pair(cause, effect)))
    ana = memory.user("ana")
    tell(ana, ROCK, "s")
    assert ana.flush().causes == 0
    assert causal_edges(memory) == {}


def test_one_call_shows_a_session_whole_and_what_is_in_its_clusters(
    open_memory: Any,
) -> None:
    """Also a pair that has no words in common, and a record of a session long ago."""
    model = reading()
    memory = open_memory(model, extraction__cluster_max_distance=0.4)
    ana = memory.user("ana")
    tell(ana, ("Thin is the boat's hull.", "I like tulips.", "My aunt sings."), "s1")
    ana.flush()
    tell(
        ana, ("Thin is the boat's keel.", "It rained.", "Bread is dear."), "s2", day=10
    )
    ana.flush()
    first, second = asked(model)
    assert len(aliases(first)) == 3
    later = {"Thin is the boat's keel.", "It rained.", "Bread is dear."}
    assert aliases(second).keys() == later | {"Thin is the boat's hull."}
    assert list(aliases(second).values()) == ["r1", "r2", "r3", "r4"]  # oldest first
    assert next(iter(aliases(second))) == "Thin is the boat's hull."


def test_fewer_than_three_changes_cost_no_call(open_memory: Any) -> None:
    model = reading()
    ana = open_memory(model).user("ana")
    tell(ana, ROCK[:2], "s1")
    ana.flush()
    assert asked(model) == []
    tell(ana, ROCK[2:], "s2")
    ana.flush()
    assert [len(aliases(question)) for question in asked(model)] == [3]
    ana.flush()
    assert len(asked(model)) == 1


def test_records_that_topics_try_again_are_no_change_for_causes(
    open_memory: Any,
) -> None:
    model = reading(TopicRound="prose")
    ana = open_memory(model).user("ana")
    tell(ana, ROCK, "s1")
    ana.flush()
    tell(ana, ("It rained.",), "s2")
    ana.flush()
    # each with its repair
    assert [name for name, _ in model.asked].count("TopicRound") == 4
    assert len(asked(model)) == 1


def test_a_backlog_costs_one_call_about_the_newest(open_memory: Any) -> None:
    model = reading()
    ana = open_memory(model).user("ana")
    source = {"role": "system", "content": "Be brief.", "id": "m0"}
    ana.add([source], session_id="s")
    ana.add_records(
        [
            {"text": f"Odd fact number {n}.", "source_message_ids": ["m0"]}
            for n in range(150)
        ]
    )
    ana.flush()
    (question,) = asked(model)
    assert {f"Odd fact number {n}." for n in range(30, 150)} <= set(aliases(question))
    ana.flush()
    assert len(asked(model)) == 1


def test_a_server_that_is_down_leaves_causes_due_and_is_asked_nothing_else(
    open_memory: Any,
) -> None:
    model = reading(CausalPairs=ConnectionError("down"))
    ana = open_memory(model).user("ana")
    tell(ana, ROCK, "s")
    assert ana.flush().causes == 0
    assert "TopicRound" not in {name for name, _ in model.asked}
    model.answers["CausalPairs"] = pair(ROCK[0], ROCK[1])
    assert ana.flush().causes == 1


def test_an_answer_about_what_was_erased_meanwhile_links_nothing(
    open_memory: Any,
) -> None:
    """Numbers of records begin anew after an erasure."""
    model = reading()

    def erase_and_answer(question: str) -> Any:
        model.answers["CausalPairs"] = pair("", "")
        ana.erase()
        ana.add({"role": "user", "content": "Hello.", "id": "m"}, session_id="new")
        texts = ("I like green.", "I like blue.", "I like red.")
        ana.add_records([{"text": t, "source_message_ids": ["m"]} for t in texts])
        return pair(ROCK[0], ROCK[1])(question)

    model.answers["CausalPairs"] = erase_and_answer
    memory = open_memory(model)
    ana = memory.user("ana")
    tell(ana, ROCK, "s")
    assert ana.flush().causes == 0
    assert causal_edges(memory) == {}
    before = len(asked(model))
    ana.flush()
    assert len(asked(model)) == before + 1


def test_an_answer_that_cannot_be_used_costs_no_round(open_memory: Any) -> None:
    model = reading(CausalPairs="prose")
    ana = open_memory(model).user("ana")
    tell(ana, ROCK, "s")
    report = ana.flush()
    assert (report.status, report.causes, report.stored) == ("ok", 0, 3)
    assert "TopicRound" in {name for name, _ in model.asked}
    before = len(asked(model))
    ana.flush()
    assert len(asked(model)) == before


@pytest.mark.parametrize("start", ["2025-01-03T10:00", "2025-05", "soon", None])
def test_causes_of_what_was_imported_with_a_time_of_any_shape(
    open_memory: Any, start: str | None
) -> None:
    ana = open_memory(reading(CausalPairs=pair(ROCK[0], ROCK[1]))).user("ana")
    ana.add([{"role": "system", "content": "The log.", "id": "m"}], session_id="r")
    row = {"text": ROCK[0], "source_message_ids": ["m"], "facet": "schedule"}
    ana.add_records([{**row, "event_time": {"start": start}}])
    tell(ana, ROCK[1:], "s", day=2)
    report = ana.flush()
    assert (report.status, report.causes) == ("ok", 1)


def test_alike_records_get_an_edge_without_a_call(open_memory: Any) -> None:
    model = reading()
    memory = open_memory(model)
    ana = memory.user("ana")
    tell(ana, ("The boat has a thin hull.", "The boat has a thin keel."), "s")
    ana.flush()
    assert semantic_edges(memory) == [(1, 2)]
    assert {name for name, _ in model.asked} <= {"Extraction", "Reconciliation"}


def semantic_edges(memory: Any) -> list[tuple[int, int]]:
    with (
        memory._services.room("ana") as room,
        room.database.read_transaction(EVERYTHING) as connection,
    ):
        columns = select(links.c.source, links.c.target)
        rows = connection.execute(columns.filter_by(kind="semantic")).all()
    return [(row.source, row.target) for row in rows]


def test_the_vectors_of_a_cluster_are_read_once(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_records, "MOST_COMPARED", 50)
    read = list[int]()
    vectors_of = vector_rows.vectors_of

    def counted(connection: Any, items: Any, layer: str = "") -> Any:
        read.extend(items if layer == RECORDS else [])
        return vectors_of(connection, items, *filter(None, [layer]))

    alike_enough = {"cluster_max_distance": 0.9, "semantic_floor": 0.1}
    settings = {f"extraction__{name}": one for name, one in alike_enough.items()}
    memory = open_memory(reading(), **settings)
    ana = memory.user("ana")
    ana.add([{"role": "system", "content": "Be brief.", "id": "m0"}], session_id="s")
    alike = [
        {"text": f"Yoga takes place in room {n} today.", "source_message_ids": ["m0"]}
        for n in range(120)
    ]
    ana.add_records(alike[:60])
    tell(ana, ROCK[:1], "s")
    ana.flush()
    ana.add_records(alike[60:])
    tell(ana, ROCK[2:], "s2")
    monkeypatch.setattr(link_records.vector_rows, "vectors_of", counted)
    ana.flush()
    # for searches, too
    assert len(read) <= 1_000
    edges = semantic_edges(memory)
    assert all(older < newer for older, newer in edges)
    newest = 121  # of those alike
    of_newest = [older for older, newer in edges if newer == newest]
    assert len(of_newest) == link_records.MAX_EDGES
    assert min(of_newest) >= newest - 50
