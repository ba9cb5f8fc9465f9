"""Whether a quote stands in a message: whitespace, case and the kind of quotation marks aside."""

import re
import unicodedata

_QUOTATION = str.maketrans(
    dict.fromkeys("\"'“”„‟«»‹›‘’‚‛`´「」『』", "'") | dict.fromkeys("‐‑‒–—−", "-")
)
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")
LEAST = 2  # words of a quote that is not the whole message; of scripts without spaces, characters


def holds(text: str, quote: str) -> bool:
    """Whether the quote stands in the text as it is."""
    wanted = _plain(quote)
    return bool(wanted) and wanted in _plain(text)


def holds_words(text: str, quote: str) -> bool:
    """Whether the quote stands in the text as whole words: "o" is no word of "No, never"."""
    wanted = _plain(quote).strip("'.,!?… ")
    before = r"(?<!\w)" if wanted and not _UNSPACED.match(wanted) else ""
    after = r"(?!\w)" if wanted and not _UNSPACED.match(wanted[-1]) else ""
    return bool(wanted) and bool(re.search(before + re.escape(wanted) + after, _plain(text)))


def holds_value(text: str, value: str) -> bool:
    """Whether the value stands in the text, and not within a longer number ("42" in "142.50")."""
    wanted = _plain(value)
    before = r"(?<!\d)(?<!\d[.,])" if wanted[:1].isdecimal() else ""
    after = r"(?!\d|[.,]\d)" if wanted[-1:].isdecimal() else ""
    return bool(wanted) and bool(re.search(before + re.escape(wanted) + after, _plain(text)))


def is_telling(text: str, quote: str) -> bool:
    """Whether a quote is long enough to say something: two words, or the whole message."""
    plain = _plain(quote)
    spaced = _UNSPACED.sub(" ", plain)
    words = len(re.findall(r"\w+", spaced)) + len(_UNSPACED.findall(plain))
    return words >= LEAST or plain.strip("'.!?…") == _plain(text).strip("'.!?…")


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).translate(_QUOTATION).casefold()
    return " ".join(folded.split())
