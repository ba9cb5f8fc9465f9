"""A text as words, numbers and signs, with their places in it."""

import re
import unicodedata
from typing import Literal, NamedTuple

_CJK = r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
_TOKEN = re.compile(rf"\d+|{_CJK}|(?:(?!{_CJK})[^\W\d_]|[\u0300-\u036f])+|\S")
_LONGEST = 40  # letters of a word that is looked up
_MOST_DIGITS = 4
_APOSTROPHES = "\u2019\u02bc\u2018`"


class Token(NamedTuple):
    """A word, a number or one sign; a character of Chinese or Korean is a word."""

    kind: Literal["word", "number", "sign"]
    text: str  # a word in the form in which it is compared
    start: int
    end: int
    is_glued: bool  # no space before it

    @property
    def value(self) -> int:
        """The number; -1 for a word, a sign, or more than four digits."""
        is_short = self.kind == "number" and len(self.text) <= _MOST_DIGITS
        return int(self.text) if is_short else -1

    @property
    def is_cjk(self) -> bool:
        """Whether it stands in a script that puts no spaces between words."""
        return self.kind == "word" and len(self.text) == 1 and self.text >= "\u3040"


END = Token("sign", "", 0, 0, is_glued=False)
"""What stands before the first token and behind the last."""


def tokens_of(text: str) -> list[Token]:
    """The tokens of a text, in order."""
    tokens = []
    last_end = 0
    for found in _TOKEN.finditer(text):
        start, end = found.span()
        is_glued = start == last_end and start > 0
        words = found[0]
        if words.isdecimal():
            tokens.append(Token("number", words, start, end, is_glued))
        elif words[0].isalpha():
            tokens.append(Token("word", compared(words), start, end, is_glued))
        else:
            sign = "'" if words in _APOSTROPHES else words
            tokens.append(Token("sign", sign, start, end, is_glued))
        last_end = end
    return tokens


def compared(word: str) -> str:
    """A word without capitals, its accents in one form; a very long one cut off."""
    if word.isascii():
        return word[:_LONGEST].lower()
    folded = unicodedata.normalize("NFC", word[:_LONGEST].casefold())
    return folded.replace("i\u0307", "i")
