"""Small numbers in words, by language."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files


@cache
def number_words(language: str) -> Mapping[str, int]:
    """The numbers that a language has words for here: one to twelve, and those of clocks."""
    text = files("langmem_graph.values").joinpath("number_words.txt").read_text(encoding="utf-8")
    rows = {
        name: words.split() for name, words in (line.split(" ", 1) for line in text.splitlines())
    }
    plain = {word: place for place, word in enumerate(rows[language][:12], 1)}
    return plain | {word: int(n) for n, _, word in (p.partition("=") for p in rows[language][12:])}
