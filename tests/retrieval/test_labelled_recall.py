"""Recall and search find what no longer holds, and say so."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_graph.memory import Memory
from langmem_graph.results import Fact
from langmem_graph.retrieval.facts import MOST_OLDER, find_facts, first_chains
from langmem_graph.retrieval.quoted_context import (
    LABEL_TEXTS,
    MOST_LABELS,
    fact_line,
    label_words,
    line_of,
    quote,
)
from langmem_graph.retrieval.record_search import best_of_chains
from langmem_graph.retrieval.search_common import UserSearch
from langmem_graph.schemas import Label, Message
from langmem_graph.storage.reading import EVERYTHING
from langmem_graph.tokens import TokenCounter, estimate
from tests.conftest import said
from tests.support.homes import HOMES, changed, live_in, told

COUNTER = TokenCounter(estimate, exact=False)
LABEL = {"statement": "Ana lives in Porto.", "record_id": "r1", "newest_id": "r2"}
MOVED = '(no longer true since 2025-02-05: now "Ana lives in Berlin.")'


def a_label(**fields: Any) -> Label:
    since = {"relation": "replaces", "since": "2025-06-05T10:00:00Z"}
    return Label.model_validate({**LABEL, **since, **fields})


# --- the words ---


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"replaced_by": "Ana lives in Berlin.", "quote": "I moved to Berlin"},
            'no longer true since 2025-06-05: now "Ana lives in Berlin."; "I moved to Berlin"',
        ),
        ({"replaced_by": "B."}, 'no longer true since 2025-06-05: now "B."'),
        ({"quote": "gone"}, 'no longer true since 2025-06-05: "gone"'),
        ({}, "no longer true since 2025-06-05"),
        ({"since": None}, "no longer true"),
        ({"partial": True}, '"Ana lives in Porto." no longer true since 2025-06-05'),
        ({"relation": "ended", "quote": "sold it"}, 'ended 2025-06-05: "sold it"'),
        ({"relation": "corrects", "quote": "no"}, 'corrected 2025-06-05: "no"'),
        ({"relation": "completes", "quote": "did it"}, 'done 2025-06-05: "did it"'),
        ({"relation": "cancels"}, "cancelled 2025-06-05"),
        (
            {"relation": "reschedules", "replaced_by": "B"},
            'rescheduled 2025-06-05: now "B"',
        ),
        ({"relation": None}, "only true from 2025-06-05"),
    ],
)
def test_a_label_says_what_happened(fields: dict[str, Any], words: str) -> None:
    assert label_words([a_label(**fields)]) == f" ({words})"


def test_of_several_statements_each_is_named() -> None:
    two = [a_label(), a_label(relation="ended", statement="Ana has a dog.")]
    assert label_words(two) == (
        ' ("Ana lives in Porto." no longer true since 2025-06-05)'
        ' ("Ana has a dog." ended 2025-06-05)'
    )
    assert label_words([]) == ""
    many = label_words([a_label()] * (MOST_LABELS + 4))
    assert many.count("no longer true") == MOST_LABELS
    assert many.endswith(" (and 4 more of its statements do not hold)")


@given(st.text(), st.text(), st.text(), st.booleans())
def test_whatever_was_said_a_label_is_short_and_cannot_break_out(
    statement: str, instead: str, quoted: str, partial: bool
) -> None:
    label = a_label(
        statement=statement, replaced_by=instead, quote=quoted, partial=partial
    )
    words = label_words([label])
    # its own words, and a character too many each
    assert estimate(words) <= LABEL_TEXTS + 35
    assert len(words.splitlines()) == 1
    assert "<" not in words
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "…", words)
    assert re.fullmatch(
        r" \((… )?no longer true since 2025-06-05(: (now …)?(; )?…?)?\)", bare
    )
    for part in re.findall(r'"(?:[^"\\]|\\.)*"', words):
        assert json.loads(part)


def test_a_long_text_keeps_its_beginning() -> None:
    words = label_words(
        [a_label(replaced_by="Ana lives in Berlin. " * 50, quote="word " * 90)]
    )
    assert words.startswith(
        ' (no longer true since 2025-06-05: now "Ana lives in Berlin. Ana'
    )
    assert words.endswith(' …")')
    assert estimate(words) <= 65


def test_facts_and_quotes_have_the_same_label() -> None:
    fields = {
        "text": "I live in Porto.",
        "at": "2025-01-05T10:00:00Z",
        "labels": [a_label()],
    }
    fact = Fact.model_validate({"id": "message:m1", "message_ids": ["m1"], **fields})
    message = Message.model_validate(
        {"id": "m1", "session_id": "s", "role": "user", **fields}
    )
    label = "(no longer true since 2025-06-05)"
    assert (
        quote(message, COUNTER, 50)
        == f'- 2025-01-05 10:00 user [m1] {label}: "{fact.text}"'
    )
    assert fact_line(fact) == f'- 2025-01-05 10:00 [m1] {label}: "{fact.text}"'
    assert line_of(fact) == f'Sun 2025-01-05 {label} "{fact.text}"'
    draft = fact.model_copy(update={"confirmation": "draft"})
    assert line_of(draft) == f'Sun 2025-01-05 (draft) {label} "{fact.text}"'


# --- recall ---


def test_a_recall_without_a_model_labels_what_no_longer_holds(memory: Memory) -> None:
    ana = memory.user("ana")
    live_in(ana, "Porto", "Berlin")
    recalled = ana.recall("Where does Ana live?")
    assert (
        f'- 2025-01-05 10:00 user [m1] {MOVED}: "I live in Porto."' in recalled.context
    )
    assert '[m2]: "I live in Berlin."' in recalled.context
    by_id = {hit.message_id: hit for hit in recalled.evidence}
    assert (by_id["m1"].outdated, by_id["m2"].outdated) == (True, False)
    hits = {
        hit.message_id: hit.labels
        for hit in ana.search_conversation("live", by="session")
    }
    assert [label.replaced_by for label in hits["m1"]] == ["Ana lives in Berlin."]
    assert hits["m2"] == []


def test_the_words_that_changed_it_are_quoted(memory: Memory) -> None:
    ana = memory.user("ana")
    told(ana, "I own a bike.", "m1", "r1", "2025-01-05")
    ana.add([said("Finally sold the bike!", id="m2", at="2025-06-05")], session_id="b")
    changed(memory, "ended", "r1", "m2", "sold the bike")
    assert (
        '[m1] (ended 2025-06-05: "sold the bike"): "I own a bike."'
        in ana.recall("bike").context
    )
    ana.undo("r1")
    assert '[m1]: "I own a bike."' in ana.recall("bike").context


def test_labels_count_against_the_budget(memory: Memory) -> None:
    ana = memory.user("ana")
    live_in(ana, *HOMES[:2])
    for budget in range(40, 160, 3):
        report = ana.recall("Where does Ana live?", max_tokens=budget).report
        assert report.context_tokens <= budget


def test_a_message_of_several_statements_is_labelled_by_statement(
    memory: Memory,
) -> None:
    ana = memory.user("ana")
    text = "I live in Porto and my dog is Rex."
    ana.add([said(text, id="m1", at="2025-01-05")], session_id="a")
    for own_id, statement in (
        ("r1", "Ana lives in Porto."),
        ("dog", "Ana's dog is Rex."),
    ):
        row = {"record_id": own_id, "text": statement, "source_message_ids": ["m1"]}
        ana.add_records(row)
    told(ana, "Ana lives in Berlin.", "m2", "r2", "2025-02-05", supersedes=["r1"])
    label = f'("Ana lives in Porto." {MOVED[1:]}'
    assert f'[m1] {label}: "{text}"' in ana.recall("Porto dog").context


# --- records ---


def test_a_search_finds_what_no_longer_holds_and_what_does(memory: Memory) -> None:
    ana = memory.user("ana")
    live_in(ana, *HOMES)
    told(ana, "Ana likes figs.", "figs", "figs", "2025-01-01")
    last = f"r{len(HOMES)}"
    found = ana.search_records("Oslo", 1)
    assert [hit.record_id for hit in found] == [last, "r3"]
    assert [hit.outdated for hit in found] == [False, True]
    assert found[0].score == found[1].score
    assert [hit.record_id for hit in ana.search_records("Ana", 2)][-1] in (
        "figs",
        "r1",
        last,
    )
    assert len({hit.record_id for hit in ana.search_records("Ana", 9)}) <= 3
    assert {hit.record_id for hit in ana.search_records("Ana", 9)} >= {last, "figs"}
    explained = ana.search_records("Oslo", 1, explain=True)
    assert all(hit.signals is not None for hit in explained)


def test_what_ended_without_a_successor_is_found(memory: Memory) -> None:
    ana = memory.user("ana")
    told(ana, "Ana owns a bike.", "m1", "r1", "2025-01-05")
    ana.add([said("Sold it", id="m2", at="2025-06-05")], session_id="b")
    changed(memory, "ended", "r1", "m2", "Sold it")
    (hit,) = ana.search_records("bike")
    assert (hit.record_id, hit.labels[0].quote) == ("r1", "Sold it")


def test_a_time_in_the_past_is_answered_without_labels(memory: Memory) -> None:
    ana = memory.user("ana")
    live_in(ana, "Porto", "Berlin", "Oslo")
    (then,) = ana.search_records("live", as_of="2025-02-20")
    assert (then.record_id, then.labels) == ("r2", [])
    changed(memory, "corrects", "r3", "m3", "live in Oslo")
    assert ana.search_records("live", as_of="2025-04-01") == []
    assert all("labels" not in row for row in ana.export_records(as_of="2025-02-20"))


@given(
    st.lists(st.integers(0, 30), unique=True),
    st.dictionaries(st.integers(0, 30), st.integers(31, 36)),
    st.integers(1, 9),
)
def test_of_a_chain_the_newest_and_the_nearest_are_shown(
    numbers: list[int], newest: dict[int, int], k: int
) -> None:
    """Records up to 30 were superseded by those from 31 on, or hold."""
    chains = best_of_chains(numbers, newest, k)
    ends = [newest.get(n, n) for n in numbers]
    assert [chain[0] for chain in chains] == list(dict.fromkeys(ends))[:k]
    for last, *nearest in chains:
        first = next(n for n, end in zip(numbers, ends, strict=True) if end == last)
        assert nearest == ([] if first == last else [first])


# --- facts ---


def _facts(rows: list[tuple[int, int, bool]]) -> list[Fact]:
    """Facts of chains: the number of a chain, of a record in it, and whether it is a message."""
    facts = []
    for chain, place, is_message in rows:
        own = f"c{chain}-{place}"
        label = a_label(record_id=own, newest_id=f"c{chain}-0")
        fact = Fact(
            id=f"message:{own}" if is_message else f"record:{own}",
            text=own,
            record_id=None if is_message else own,
            labels=[label] if place else [],
        )
        facts.append(fact)
    return list({fact.id: fact for fact in facts}.values())


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 3), st.booleans()), max_size=30
    ),
    st.integers(1, 6),
)
def test_a_chain_counts_once_and_shows_one_older_fact(
    rows: list[tuple[int, int, bool]], k: int
) -> None:
    facts = _facts(rows)
    shown = first_chains(facts, k)
    assert shown == [fact for fact in facts if fact in shown]  # the order is kept
    older = [fact.labels[0].newest_id for fact in shown if fact.outdated]
    assert len(older) == len(set(older))
    chains = {
        fact.labels[0].newest_id if fact.labels else fact.record_id or fact.id
        for fact in shown
    }
    assert len(chains) <= k
    if len(chains) < k:
        assert {fact.id for fact in facts if not fact.outdated} <= {
            fact.id for fact in shown
        }


def test_facts_without_labels_are_the_first_ones() -> None:
    facts = [Fact(id=str(n), text="t") for n in range(9)]
    assert first_chains(facts, 4) == facts[:4]


@pytest.mark.parametrize("older", [1, 2])
def test_of_a_chain_as_many_older_facts_are_shown_as_are_asked_for(older: int) -> None:
    facts = _facts([(0, place, False) for place in (2, 0, 3, 1)])
    ids = [fact.record_id for fact in first_chains(facts, 1, older)]
    assert ids == ["c0-2", "c0-0", "c0-3"][: older + 1]


@pytest.mark.parametrize("way", ["temporal", "history"])
def test_one_hit_brings_all_of_a_chain_where_values_over_time_are_asked_for(
    memory: Memory, way: str
) -> None:
    ana = memory.user("ana")
    live_in(ana, *HOMES)
    services = memory._services
    asked: dict[str, Any] = (
        {"relation": way} if way == "temporal" else {"history": True}
    )
    with services.room("ana") as room:
        found = find_facts(
            UserSearch.of(services, room, EVERYTHING), "Oslo", 1, **asked
        )
    last = len(HOMES)
    newest = [f"r{n}" for n in range(last - MOST_OLDER, last + 1)]
    assert sorted(fact.record_id or "" for fact in found) == newest
    assert [fact.record_id for fact in found if not fact.outdated] == [f"r{last}"]


def chain_of(memory: Memory, query: str) -> set[str | None]:
    """The records that one hit of a chain brings."""
    services = memory._services
    with services.room("ana") as room:
        found = find_facts(
            UserSearch.of(services, room, EVERYTHING), query, 1, history=True
        )
    return {fact.record_id for fact in found}


def test_a_chain_of_several_branches_is_brought_without_what_was_taken_back(
    memory: Memory,
) -> None:
    ana = memory.user("ana")
    live_in(ana, "Porto", "Berlin", "Oslo")
    told(ana, "Ana lives with Bo.", "m9", "r9", "2025-03-01")
    changed(memory, "replaces", "r9", "m3", "live in Oslo", by="r3")
    assert chain_of(memory, "Oslo") == {"r1", "r2", "r3", "r9"}
    ana.forget(record="r2")
    left = chain_of(memory, "Oslo")
    assert "r2" not in left
    assert left >= {"r3", "r9"}


def test_what_was_corrected_is_no_value_of_the_past(memory: Memory) -> None:
    ana = memory.user("ana")
    live_in(ana, "Porto", "Berlin", "Oslo")
    told(ana, "Ana lives in Turin.", "m9", "r9", "2025-03-20")
    changed(memory, "corrects", "r9", "m3", "live in Oslo", by="r3")
    assert chain_of(memory, "Oslo") == {"r1", "r2", "r3"}


@pytest.mark.parametrize("relation", ["semantic", "entity", "causal"])
def test_facts_of_a_chain_are_the_newest_and_the_nearest(
    memory: Memory, relation: Any
) -> None:
    ana = memory.user("ana")
    live_in(ana, *HOMES)
    told(ana, "Ana likes figs in Oslo.", "figs", "figs", "2025-01-01")
    services = memory._services
    with services.room("ana") as room:
        found = find_facts(
            UserSearch.of(services, room, EVERYTHING), "Ana Oslo", 4, relation
        )
    homes = {fact.record_id: fact for fact in found if "live" in fact.text}
    assert sorted(homes) == ["r3", f"r{len(HOMES)}"]
    assert (homes["r3"].outdated, homes[f"r{len(HOMES)}"].outdated) == (True, False)
    assert "figs" in {fact.record_id for fact in found}
