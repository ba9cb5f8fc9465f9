"""The tokens of a text while it is read: what stands where, and beside what."""

from dataclasses import dataclass
from datetime import date

from langmem_graph.moments.tokens import END, Token

_OPENING = frozenset("([{\"'„“”«»‘’¿¡,;—–…*|!?<>=&")
_NO_END = frozenset("/+_#@%€$£")
_SENTENCE_ENDS = frozenset('.!?:¿¡"')
_MONEY = frozenset("$€£¥₹%")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A text, its tokens, and the day on which it was said, where that is known."""

    text: str
    tokens: list[Token]
    said: date | None

    def at(self, place: int) -> Token:
        """The token at a place; `END` before the first and behind the last."""
        return self.tokens[place] if 0 <= place < len(self.tokens) else END

    def word(self, place: int) -> str:
        """The word at a place; empty for a number or a sign."""
        token = self.at(place)
        return token.text if token.kind == "word" else ""

    def sign(self, place: int) -> str:
        """The sign at a place; empty for a word or a number."""
        token = self.at(place)
        return token.text if token.kind == "sign" else ""

    def begins(self, place: int) -> bool:
        """Whether nothing before a token belongs to the same number or word."""
        token = self.at(place)
        before = self.at(place - 1)
        if not token.is_glued or before.is_cjk:
            return True
        return before.text in _OPENING

    def ends(self, place: int) -> bool:
        """Whether nothing behind the token before a place belongs to it."""
        after = self.at(place)
        if not after.is_glued or after.is_cjk:
            return True
        if after.kind != "sign":
            return False
        if after.text in _NO_END:
            return False
        further = self.at(place + 1)
        is_inside = after.text in ".,:-'" and further.is_glued
        return not (is_inside and further.kind == "number")

    def is_money(self, place: int) -> bool:
        """Whether the token is the sign of a currency, or of percent."""
        return self.at(place).text in _MONEY

    def starts_sentence(self, place: int) -> bool:
        """Whether a token is the first of a sentence."""
        before = self.at(place - 1)
        return before is END or before.text in _SENTENCE_ENDS

    def span(self, first: int, after: int) -> tuple[int, int]:
        """The characters from a token to the one before another."""
        return self.tokens[first].start, self.tokens[after - 1].end
