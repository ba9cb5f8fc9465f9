"""Where words and values stand in a text (Mem2ActBench 3.3).

A value that is sent to a tool has to stand there as whole tokens (`whole_in`,
`quoted_in`, `says`); the words that a model quotes for a change only in the same order
(`holds`), whatever their case and the kind of their quotation marks and dashes.

"12" is no token of "120", "3.12", "AB-12" or "-12", and the 2 of "2 million" is part of
a number.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import accumulate

from langmem_graph.values import word_list

_ALWAYS, _BETWEEN_DIGITS, _IN_CODES, _HYPHENS = "@_.", ",:'’", "/-\u2011", "-\u2011"
"""Characters that connect two parts of one token, by what stands around them."""
_SIGNS = "-−"
_QUOTES = str.maketrans(dict.fromkeys("“”„‟«»", '"') | dict.fromkeys("‘’‚‛`´", "'"))
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff"
)
"""Thai, Lao, Burmese, Khmer, kana, Han, Hangul: words follow each other without a
space.
"""
MOST_PLACES = 1_000
"""At which characters are looked for in a text; no value stands alone after so many
places where it is part of something longer.
"""
_EMOJI_STYLE = "\ufe0f"
_UNSPACED = re.compile(f"[{UNSPACED}]")
_SPACES = re.compile(r"\s+")
_SPACES_OR_SIGN = re.compile(r"\s+|\S")
_SHORT = frozenset("k K M MM B T".split())  # their abbreviations; `m` and `b` are units
_CJK = frozenset("十百千万萬亿億兆京半割几幾多余餘来数만천백억조")
"""Characters that multiply it, or make it a fraction or an estimate."""
_FOLLOWING = re.compile(r"[ \u00a0\u202f-]?(?P<word>[^\W\d_]+)")
_FRACTION = re.compile(
    r" (?:\d/\d|[¼½¾⅓⅔]|(?:and|&) (?:a|one) (?:half|quarter|third)\b)"
)
_GROUP = re.compile(r"[ \u00a0\u202f]\d{3}(?!\w)")
_GROUPS_BEFORE = re.compile(r"(?<![\w.,-])[1-9]\d{0,2}[ \u00a0\u202f]\Z")


def places(wanted: str, text: str) -> Iterator[int]:
    """Where the characters begin in the text, overlapping places included; the first
    `MOST_PLACES`.
    """
    place = text.find(wanted) if wanted else -1
    for _ in range(MOST_PLACES):
        if place < 0:
            return
        yield place
        place = text.find(wanted, place + 1)


def tokens(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Every match of the pattern that consists of whole tokens, overlapping ones
    included.
    """
    match = pattern.search(text)
    while match:
        if is_token(text, *match.span()):
            yield match
        match = pattern.search(text, match.start() + 1)


def is_token(text: str, start: int, end: int, *, ranges: bool = False) -> bool:
    """True when the span begins and ends where tokens do; with `ranges` 10-12 are two
    numbers.
    """
    before = text[max(0, start - 2) : start]
    after = text[end : end + 2]
    first = text[start : min(end, start + 2)]
    last = text[max(start, end - 2) : end]
    if _is_signed(before, first):
        return False
    return not (_joins(before, first, ranges) or _joins(last, after, ranges))


def _is_signed(before: str, first: str) -> bool:
    """True for the 5 of "-5", not for that of "2-5"."""
    if before[-1:] not in tuple(_SIGNS) or not first[:1].isdigit():
        return False
    return len(before) == 1 or not (before[0].isalnum() or before[0] in ")]")


def _joins(left: str, right: str, ranges: bool) -> bool:
    """True when one token reaches from `left` to `right`, directly or by a
    connector.
    """
    if not left or not right:
        return False
    if _is_mark(right[0]) or (_is_word(left[-1]) and _is_word(right[0])):
        return True
    around = (left[-1], right[0], right[1:2]), (left[-2:-1], left[-1], right[0])
    return any(_connects(*signs, ranges) for signs in around)


def _connects(one: str, connector: str, other: str, ranges: bool) -> bool:
    """True where the connector makes one token of the characters around it."""
    if not (one and other and _is_word(one) and _is_word(other)):
        return False
    if one.isdigit() and other.isdigit() and connector in _HYPHENS:
        return not ranges
    if connector in _BETWEEN_DIGITS:
        return one.isdigit() and other.isdigit()
    if connector in _IN_CODES:
        return all(sign.isdigit() or sign.isupper() for sign in (one, other))
    return connector in _ALWAYS


def _is_word(sign: str) -> bool:
    return sign.isdigit() or (
        (sign.isalnum() or sign == "_") and not _UNSPACED.match(sign)
    )


def _is_mark(sign: str) -> bool:
    """True for a combining mark, such as an accent or a vowel; not for an emoji's
    style.
    """
    return unicodedata.category(sign)[0] == "M" and sign != _EMOJI_STYLE


def says(text: str, value: str) -> bool:
    """True when the value occurs in the text as whole words, ignoring case."""
    return bool(said_of(text, [value]))


def said_of(text: str, values: Iterable[str]) -> list[str]:
    """Those of the values that occur so; the text is read once for all."""
    plain = _plain(text)
    return [value for value in values if _stands_in(plain, _plain(value))]


def _stands_in(plain: str, wanted: str) -> bool:
    return any(
        is_token(plain, place, place + len(wanted)) for place in places(wanted, plain)
    )


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def whole_in(words: str, text: str, *, any_case: bool = False) -> str | None:
    """The words as they stand in the text; None inside longer words or a longer number.

    The white space between the words and the kind of quotation marks may differ.
    """
    plain = text.translate(_QUOTES)
    wanted = " ".join(words.translate(_QUOTES).split())
    spaced = _SPACES.sub(" ", plain)
    if any_case:
        wanted = _one_case(wanted)
        spaced = _one_case(spaced)
    if wanted not in spaced:
        return None
    where = list(accumulate(map(len, _SPACES_OR_SIGN.findall(plain)), initial=0))
    for place in places(wanted, spaced):
        start = where[place]
        end = where[place + len(wanted)]
        if is_token(plain, start, end) and not is_part(text, start, end):
            return text[start:end]
    return None


def _one_case(text: str) -> str:
    """The text in one case, with as many characters."""
    folded = text.casefold()
    if len(folded) != len(text):  # ß is ss
        every = ((sign.casefold(), sign.lower()) for sign in text)
        folded = "".join(one if len(one) == 1 else lower[0] for one, lower in every)
    return folded.replace("ı", "i")


def quoted_in(words: str, text: str) -> str | None:
    """The words as they stand in the text, whatever the case; None where they
    do not.
    """
    forms = (unicodedata.normalize(form, words) for form in ("NFC", "NFD"))
    spelled = dict.fromkeys((words, *forms))
    for any_case in (False, True):
        for spelling in spelled:
            if (found := whole_in(spelling, text, any_case=any_case)) is not None:
                return found
    return None


def is_part(text: str, start: int, end: int) -> bool:
    """True where the span is only a part of a number: the 2 of "2 million" or "2 and a
    half".
    """
    if not text[end - 1 : end].isdigit():
        return False
    word = _FOLLOWING.match(text, end)
    if word and multiplies(word["word"]):
        return True
    return bool(_FRACTION.match(text, end)) or _is_grouped(text, start, end)


def _is_grouped(text: str, start: int, end: int) -> bool:
    """True for the 12 and for the 500 of "12 500"."""
    digits = text[start:end]
    before = _GROUPS_BEFORE.search(text[max(0, start - 5) : start])
    after = _GROUP.match(text, end)
    opens = digits.isdigit() and len(digits) <= 3 and digits[0] != "0"
    return bool((after and opens) or (before and digits.isdigit() and len(digits) == 3))


def multiplies(word: str) -> bool:
    """True for a word that makes another number of the number before it."""
    return word.casefold() in _multipliers() or word in _SHORT or bool(_CJK & set(word))


@cache
def _multipliers() -> frozenset[str]:
    return frozenset(word_list("multipliers").split())


# --- what a model quotes of a message ---

_ALIKE = str.maketrans(
    dict.fromkeys("\"'“”„‟«»‹›‘’‚‛`´「」『』", "'") | dict.fromkeys("‐‑‒–—−", "-")
)
_UNSPACED_QUOTE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")
# of a quote that is not the whole message; of unspaced scripts, characters
LEAST_WORDS = 2


def holds(text: str, quote: str) -> bool:
    """Whether the quote stands in the text as it is."""
    wanted = _plain_quote(quote)
    return bool(wanted) and wanted in _plain_quote(text)


def holds_words(text: str, quote: str) -> bool:
    """Whether the quote stands in the text as whole words: "o" is no word of "No,
    never".
    """
    wanted = _plain_quote(quote).strip("'.,!?… ")
    before = r"(?<!\w)" if wanted and not _UNSPACED_QUOTE.match(wanted) else ""
    after = r"(?!\w)" if wanted and not _UNSPACED_QUOTE.match(wanted[-1]) else ""
    return _stands_between(before, wanted, after, _plain_quote(text))


def holds_value(text: str, value: str) -> bool:
    """Whether the value stands in the text, and not within a longer number ("42" in
    "142.50").
    """
    wanted = _plain_quote(value)
    before = r"(?<!\d)(?<!\d[.,])" if wanted[:1].isdecimal() else ""
    after = r"(?!\d|[.,]\d)" if wanted[-1:].isdecimal() else ""
    return _stands_between(before, wanted, after, _plain_quote(text))


def _stands_between(before: str, wanted: str, after: str, text: str) -> bool:
    """Whether what is wanted stands where patterns of no width match on both sides."""
    begins = re.compile(before)
    ends = re.compile(after)
    return any(
        begins.match(text, place) and ends.match(text, place + len(wanted))
        for place in places(wanted, text)
    )


def is_telling(text: str, quote: str) -> bool:
    """Whether a quote is long enough to say something: two words, or the whole
    message.
    """
    plain = _plain_quote(quote)
    spaced = _UNSPACED_QUOTE.sub(" ", plain)
    words = len(re.findall(r"\w+", spaced)) + len(_UNSPACED_QUOTE.findall(plain))
    return words >= LEAST_WORDS or plain.strip("'.!?…") == _plain_quote(text).strip(
        "'.!?…"
    )


@lru_cache(maxsize=16)  # a message is asked for each value that it says
def _plain_quote(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).translate(_ALIKE).casefold()
    return " ".join(folded.split())
