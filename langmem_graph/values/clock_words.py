"""Times of day in words: "quarter past six", "halb acht", "sept heures et demie", "from 8 to 4".

Candidates: an hour up to twelve without its half of the day is both.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import time
from functools import cache

from langmem_graph.values import word_list
from langmem_graph.values.countries import LANGUAGES
from langmem_graph.values.numbers import number_words

_MORNING = r"a\.?m\b|morning|morgens|ochtends?|vormittags?|matin|mañana|mattin[ao]|manhã|morgonen"
_LATER = (
    r"p\.?m\b|afternoon|evening|tonight|nachmittags?|abends?|middags?|avonds?|soir|après-midi|tarde"
    r"|pomeriggio|sera|eftermiddagen|kvällen"
)
_UNCLEAR = re.compile(r"(?<![\w:.,+$€£-])([1-9]):([0-5]\d)(?![\d:]|\s?[ap]\.?m)")
_NEAR = 28  # characters behind a time within which the part of the day stands
_ENDING = r"(?!\w|[:.,]\d|[ -](?:\d|[€£$%])|[ ](?!(?:{0})\b)[^\W\d_])"
"""Behind an hour that only a preposition marks, no noun follows: "after two days" is none."""
_FOLLOWING = (
    "to|until|till|and|or|on|in|at|by|from|the|today|tomorrow|every|each|uhr|uur|bis|tot|und|en|am|"
    "im|im|for|so|but|of|next|this|if|when|because|someone|somebody|we|i|he|she|they|you|please"
)


def clocks_in(words: str, text: str = "") -> set[time]:
    """The times of day that words name in words; `text`, in which they stand, may say which half.

    Args:
        words: "quarter past six".
        text: "Dinner is at quarter past six in the evening."
    """
    lower, whole = (" ".join(one.casefold().split()) for one in (words, text or words))
    found = set[time]()
    for clock in _UNCLEAR.finditer(lower):
        after = _behind(lower[clock.start() :], clock.group(), whole)
        found |= set(_times(int(clock[1]) * 60 + int(clock[2]), int(clock[1]), after))
    for pattern, language, sign, minutes in _patterns():
        for match in list(pattern.finditer(lower)):
            hour = _number(match["hour"], language)
            late = _number(match["minute"], language) if minutes == "M" else int(minutes)
            if minutes == "M" and late not in (5, 10, 20, 25):
                continue  # "two to five" are hours
            after = _behind(lower[match.start() :], match.group(), whole)
            found |= set(_times(hour * 60 + (late if sign == "+" else -late), hour, after))
            lower = lower[: match.start()] + "·" * len(match.group()) + lower[match.end() :]
    return found


def _behind(rest: str, said: str, whole: str) -> str:
    """What follows a time in its sentence."""
    place = whole.find(said)
    own = rest if place < 0 else whole[place:]
    return re.split(r"[.;,!?](?!\w)", own[len(said) :])[0][:_NEAR]


def _times(minutes: int, hour: int, after: str) -> Iterator[time]:
    for half in (0, 720) if hour <= 12 else (0,):
        moment = (minutes + half) % 1440
        if re.search(_MORNING, after) and moment >= 720:
            continue
        if re.search(_LATER, after) and not re.search(_MORNING, after) and moment < 720:
            continue
        yield time(*divmod(moment, 60))


def _number(written: str, language: str) -> int:
    return int(written) if written.isdigit() else number_words(language)[written]


@cache
def _patterns() -> list[tuple[re.Pattern[str], str, str, str]]:
    ending = _ENDING.format(_FOLLOWING)
    made = []
    for line in word_list("clock_words").splitlines():
        language, offset, form = line.split(" ", 2)
        names = "|".join(sorted(map(re.escape, number_words(language)), key=len, reverse=True))
        hour = rf"(?P<hour>{names}|(?<![\d:.,-])(?:1?\d|2[0-4]))"
        form = form.replace("HB", f"{hour}{ending}").replace("H ", f"{hour} ")
        form = form.removesuffix("H") + f"{hour}(?!\\w|[:.,]\\d)" * form.endswith("H")
        form = form.replace(" N)", rf" (?:{names}|1?\d|2[0-4]){ending})")
        form = re.sub(r"\bM\b", f"(?P<minute>{names}|[0-9]{{1,2}})(?![0-9])", form, count=1)
        made.append((re.compile(rf"(?<!\w){form}"), language, offset[0], offset[1:]))
    return made


def in_english(words: str) -> str:
    """Words with the names of months and weekdays, and "to" between days, in English."""
    pattern, english = _calendar()
    return pattern.sub(lambda found: f" {english[found[1].casefold()]}", words).strip()


@cache
def _calendar() -> tuple[re.Pattern[str], Mapping[str, str]]:
    from babel import Locale

    english, names = Locale("en"), {"tot en met": "to", "t/m": "to"}
    for language in LANGUAGES[1:]:
        own = Locale(language)
        for form in ("format", "stand-alone"):
            months, days = own.months[form]["wide"], own.days[form]["wide"]
            names |= {months[n].casefold(): english.months["format"]["wide"][n] for n in months}
            names |= {days[n].casefold(): english.days["format"]["wide"][n] for n in days}
    spelled = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    before, after = r"(?:(?<=\d)\.?\s(?:de\s|di\s)?|(?<!\w))", r"(?:\sde(?=\s\d{4}))?(?!\w)"
    return re.compile(rf"{before}({spelled}){after}", re.IGNORECASE), names
