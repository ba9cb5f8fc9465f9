"""Words of a text, as they are indexed and asked for."""

from hypothesis import given
from hypothesis import strategies as st

from langmem_graph.storage.words import query_terms, telling_terms, words_of_text


def test_words_of_chinese_are_pairs() -> None:
    assert words_of_text("去京都吧 ok") == ["去京", "京都", "都吧", "吧", "ok"]
    assert query_terms("京都!") == ["京都"]


def test_words_lose_endings_case_and_accents_but_not_their_script() -> None:
    assert words_of_text("Running BOATS, café's Überzüge!") == [
        "run",
        "boat",
        "cafe",
        "s",
        "uberzug",
    ]
    assert words_of_text("हिन्दी сады がくせい") == [
        "हिन्दी",
        "сады",
        "がく",
        "くせ",
        "せい",
        "い",
    ]


def test_stop_words_leave_unless_nothing_else_is_there() -> None:
    assert query_terms("What is the Trombone for, the trombone?") == ["trombon"]
    assert query_terms("who are you") == ["who", "ar", "you"]
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
    words = words_of_text(text)
    assert not any(word.split() != [word] or "\0" in word for word in words)
    assert all('"' not in term for term in query_terms(text))
