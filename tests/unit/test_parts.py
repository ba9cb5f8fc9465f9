"""Small parts with rules of their own: tokens, words, dates, fusion, locks of meaning."""

import warnings
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_graph import tokens
from langmem_graph.errors import TokenCountWarning
from langmem_graph.retrieval.search_common import reciprocal_rank_fusion
from langmem_graph.schedule.parsing import NamedDay, day_fit, named_days
from langmem_graph.storage.full_text import query_terms, searchable, telling_terms


def test_tokens_are_counted_exactly_where_the_table_is_at_hand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Table:
        def encode_ordinary(self, text: str) -> list[str]:
            return text.split()

    monkeypatch.setattr("tiktoken.get_encoding", lambda name: Table())
    tokens.token_counter.cache_clear()
    counter = tokens.token_counter("o200k_base")
    assert (counter.exact, counter.count("one two three")) == (True, 3)
    tokens.token_counter.cache_clear()


def test_without_the_table_there_is_one_warning_and_a_safe_estimate(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))  # empty, and sockets are closed
    tokens.token_counter.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        counters = [tokens.token_counter("cl100k_base") for _ in range(3)]
    assert sum(w.category is TokenCountWarning for w in caught) == 1  # pytest-socket warns too
    assert not counters[0].exact
    tokens.token_counter.cache_clear()


def test_a_table_that_never_arrives_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    release = threading.Event()
    monkeypatch.setattr(tokens, "LOAD_SECONDS", 0.05)
    monkeypatch.setattr("tiktoken.get_encoding", lambda name: release.wait(20))
    tokens.token_counter.cache_clear()
    with pytest.warns(TokenCountWarning):
        assert not tokens.token_counter("slow").exact
    release.set()
    tokens.token_counter.cache_clear()


@given(st.text())
def test_an_estimate_is_never_negative_and_grows_with_the_text(text: str) -> None:
    assert tokens.estimate(text) >= 0
    assert tokens.estimate(text + " word") > tokens.estimate(text)


@pytest.mark.parametrize(
    ("query", "day"),
    [
        ("What did we do on May 7, 2023?", NamedDay(2023, 5, 7)),
        ("on the 7th of May", NamedDay(None, 5, 7)),
        ("7 may 2023", NamedDay(2023, 5, 7)),
        ("2023-05-07", NamedDay(2023, 5, 7)),
        ("in Sept. 2024", NamedDay(2024, 9, None)),
        ("what happened in march", NamedDay(None, 3, None)),
        ("back in 1999", NamedDay(1999, None, None)),
    ],
)
def test_dates_named_in_a_query(query: str, day: NamedDay) -> None:
    assert named_days(query) == [day]


@pytest.mark.parametrize("query", ["may I march on", "order 20231", "mark 12345", "", "1.5.2.9"])
def test_what_is_no_date(query: str) -> None:
    assert named_days(query) == []


@pytest.mark.parametrize(
    ("named", "said", "fit"),
    [
        (NamedDay(2023, 5, 7), date(2023, 5, 7), 1.0),
        (NamedDay(2023, 5, 7), date(2023, 5, 8), 1.0),
        (NamedDay(2023, 5, 7), date(2023, 5, 20), 0.5),
        (NamedDay(2023, 5, 7), date(2023, 5, 29), 0.25),
        (NamedDay(2023, 5, 7), date(2023, 7, 1), 0.0),
        (NamedDay(None, 5, None), date(2020, 5, 1), 1.0),
        (NamedDay(2021, 5, None), date(2020, 5, 1), 0.0),
        (NamedDay(2020, None, None), date(2020, 5, 1), 0.25),
        (NamedDay(2023, 6, 31), date(2023, 6, 30), 0.0),
    ],
)
def test_how_well_a_day_fits(named: NamedDay, said: date, fit: float) -> None:
    assert day_fit([named], said) == fit
    assert day_fit([], said) == 0.0


@given(st.text())
def test_any_query_names_dates_or_none(query: str) -> None:
    for named in named_days(query):
        assert 0.0 <= day_fit([named], date(2024, 2, 29)) <= 1.0


def test_fusion_is_the_sum_of_reciprocal_ranks() -> None:
    scores = reciprocal_rank_fusion([np.array([0.9, 0.5, 0.0]), np.array([0.0, 2.0, 5.0])], k=60)
    assert scores.tolist() == pytest.approx([1 / 61, 1 / 62 + 1 / 62, 1 / 61])


def test_words_of_chinese_are_pairs() -> None:
    assert searchable("去京都吧 ok").split() == ["去京", "京都", "都吧", "吧", "ok"]
    assert query_terms("京都!") == ["京都"]


def test_stop_words_leave_unless_nothing_else_is_there() -> None:
    assert query_terms("What is the Trombone for, the trombone?") == ["trombone"]
    assert query_terms("who are you") == ["who", "are", "you"]
    assert query_terms("?!") == []


def test_common_terms_are_left_out_while_rarer_ones_remain() -> None:
    assert telling_terms({"dog": 500, "walk": 30, "zebra": 1, "none": 0}, 1_000) == [
        "zebra",
        "walk",
    ]
    assert telling_terms({"dog": 500}, 1_000) == ["dog"]
    assert telling_terms({}, 1_000) == []
    assert len(telling_terms({f"t{n}": n + 1 for n in range(40)}, 1_000)) == 12


@given(st.text())
def test_any_text_can_be_indexed_and_asked(text: str) -> None:
    assert "\0" not in searchable(text)
    assert all('"' not in term for term in query_terms(text))
