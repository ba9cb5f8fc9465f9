"""Tokens: counted exactly with tiktoken's table, estimated without it."""

import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_graph import tokens
from langmem_graph.errors import TokenCountWarning


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
    # empty, and sockets are closed
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    tokens.token_counter.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        counters = [tokens.token_counter("cl100k_base") for _ in range(3)]
    # pytest-socket warns too
    assert sum(w.category is TokenCountWarning for w in caught) == 1
    assert not counters[0].exact
    tokens.token_counter.cache_clear()


def test_a_table_that_never_arrives_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
