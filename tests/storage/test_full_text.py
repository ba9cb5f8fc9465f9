"""Words of a text, as they are indexed and asked for."""

from hypothesis import given
from hypothesis import strategies as st

from langmem_graph.storage.full_text import query_terms, searchable, telling_terms


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
