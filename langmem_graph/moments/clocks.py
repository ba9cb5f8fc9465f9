"""Times of day in figures: 15:00, 3pm, 9:00 to 17:00, 15 Uhr, noon."""

from datetime import time
from typing import NamedTuple

from langmem_graph.moments.made import Read
from langmem_graph.moments.moment import Clock, Moment
from langmem_graph.moments.sentence import Sentence

_TO = frozenset("- – — to until till".split())
WORDS = frozenset("noon midday".split())
_HOUR_WORDS = frozenset("uhr uur heures heure".split())
_NOT_BEFORE = frozenset(":.,$€£/+-_#@")
_NOT_AFTER = frozenset("/%€£$+-_")
_ZERO = frozenset("utc gmt".split())


class _Written(NamedTuple):
    """One time of day as it is written."""

    hour: int
    minute: int | None
    half: str  # "a", "p" or nothing
    is_plain: bool  # two figures for the hour
    is_english: bool
    after: int

    @property
    def is_marked(self) -> bool:
        """Whether it is more than a number."""
        return self.minute is not None or bool(self.half) or not self.is_english

    def at(self, half: str = "") -> time | None:
        """The time in a half of the day, its own before any other."""
        named = self.half or half
        if self.hour > (12 if named else 23) or (self.minute or 0) > 59:
            return None
        hour = self.hour % 12 + 12 * (named == "p") if named else self.hour
        return time(hour, self.minute or 0)


def clock(sentence: Sentence, place: int) -> Read | None:
    """The time of day that begins at a place, or the time from one to another."""
    if sentence.word(place) in WORDS:
        moment = Moment("clock", *sentence.span(place, place + 1), clocks=(_MIDDAY,))
        return moment, place + 1
    before = sentence.at(place - 1)
    is_inside = before.kind != "sign" or before.text in _NOT_BEFORE
    if sentence.at(place).is_glued and is_inside and not _may_precede(sentence, place):
        return None
    first = _written(sentence, place)
    if first is None:
        return None
    last = _end_of_range(sentence, first)
    if not first.is_marked and (last is None or not last.is_marked):
        return None
    after = last.after if last else first.after
    is_utc, after = _in_utc(sentence, after)
    if not _ends(sentence, after):
        if last is None or not first.is_marked or not _ends(sentence, first.after):
            return None
        last = None
        after = first.after
    readings = _readings(first, last, is_utc=is_utc)
    has_t = sentence.at(place).is_glued and sentence.word(place - 1) == "t"
    start, end = sentence.span(place - has_t, after)
    is_english = first.is_english and (last is None or last.is_english)
    moment = Moment(
        "clock", start, end, clocks=readings, is_english=is_english, is_utc=is_utc
    )
    return moment, after


_MIDDAY = Clock(time(12))


def _may_precede(sentence: Sentence, place: int) -> bool:
    """Whether the T of an ISO time, or a Chinese word, stands before the hour."""
    before = sentence.at(place - 1)
    is_stamp = before.text == "t" and sentence.at(place - 2).kind == "number"
    return before.is_cjk or (is_stamp and before.is_glued)


def _written(sentence: Sentence, place: int) -> _Written | None:
    hour = sentence.at(place)
    if hour.value < 0 or len(hour.text) > 2:
        return None
    after = place + 1
    minute = None
    separator = sentence.at(after).text
    digits = sentence.at(after + 1)
    are_glued = sentence.at(after).is_glued and digits.is_glued
    is_english = True
    if separator in (":", "h") and are_glued and len(digits.text) == 2:
        if digits.kind != "number":
            return None
        minute = digits.value
        after = after + 2
        is_english = separator == ":"
        seconds = sentence.at(after + 1)
        has_seconds = sentence.sign(after) == ":" and sentence.at(after).is_glued
        if has_seconds and len(seconds.text) == 2 and seconds.kind == "number":
            after += 2
    half, after = _half(sentence, after)
    is_short_h = sentence.word(after) == "h" and sentence.at(after).is_glued
    is_hour = sentence.word(after) in _HOUR_WORDS
    if not half and (is_hour or (is_short_h and len(hour.text) == 2)):
        after = after + 1
        is_english = False
        minutes = sentence.at(after)
        if minute is None and len(minutes.text) == 2 and 0 <= minutes.value <= 59:
            minute = minutes.value
            after = after + 1
    return _Written(hour.value, minute, half, len(hour.text) == 2, is_english, after)


def _half(sentence: Sentence, place: int) -> tuple[str, int]:
    """Of am, p.m. and their like the first letter, and the place behind it."""
    word = sentence.word(place)
    if word in ("am", "pm"):
        after = place + 1
    elif word in ("a", "p") and sentence.sign(place + 1) == ".":
        if sentence.word(place + 2) != "m":
            return "", place
        after = place + 3
    else:
        return "", place
    if sentence.sign(after) == "." and sentence.at(after).is_glued:
        is_last = not sentence.at(after + 1).is_glued
        after += is_last and sentence.sign(place + 1) == "."
    return word[0], after


def _end_of_range(sentence: Sentence, first: _Written) -> _Written | None:
    joint = sentence.at(first.after)
    if joint.text not in _TO:
        return None
    return _written(sentence, first.after + 1)


def _in_utc(sentence: Sentence, place: int) -> tuple[bool, int]:
    word = sentence.word(place)
    is_glued = sentence.at(place).is_glued
    is_utc = word in _ZERO or (word == "z" and is_glued)
    return is_utc, place + is_utc


def _ends(sentence: Sentence, place: int) -> bool:
    token = sentence.at(place)
    if not token.is_glued or token.is_cjk:
        return True
    if token.kind != "sign":
        return False
    further = sentence.at(place + 1)
    if token.text == "-" and not further.is_glued:
        return True
    if token.text in _NOT_AFTER:
        return False
    return not (token.text in ".,:" and further.is_glued and further.kind == "number")


def _readings(
    first: _Written, last: _Written | None, *, is_utc: bool
) -> tuple[Clock, ...]:
    """The times as written, and with them the afternoon where it may be meant."""
    start = first.at()
    if last is None:
        if start is None:
            return ()
        written = Clock(start)
        if _is_sure(first, None, is_utc=is_utc):
            return (written,)
        return (written, Clock(first.at("p") or start))
    end = last.at()
    if last.half and not first.half and first.hour <= 12:
        start = _before(first, end, last.half)
    if start is None or end is None:
        return ()
    written = Clock(start, end)
    if _is_sure(first, last, is_utc=is_utc):
        return (written,)
    return (written, Clock(first.at("p") or start, last.at("p") or end))


def _is_sure(first: _Written, last: _Written | None, *, is_utc: bool) -> bool:
    """False for a 3:30 that may be in the morning or in the afternoon."""
    if first.is_plain or first.half or is_utc or not first.is_english:
        return True
    if last is not None and (last.half or last.hour > 12):
        return True
    return first.hour == 0


def _before(first: _Written, end: time | None, half: str) -> time | None:
    """Of "3 to 4pm" both are in the afternoon; of "11 to 1pm" the end alone is."""
    same = first.at(half)
    other = first.at("pa"[half == "p"])
    if end is None or same is None:
        return None
    return same if same < end else other
