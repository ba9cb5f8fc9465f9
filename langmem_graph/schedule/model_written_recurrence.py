"""Recurrences as models write them: RFC 5545 rules in several forms, and common English phrases.

The prompt asks for a rule such as `FREQ=WEEKLY;BYDAY=TU`. iCalendar's lines are read too, in one
line or several: DTSTART gives the start, EXDATE the occurrences that are left out. A phrase is read
where it has one meaning: "every second Tuesday" may also be one Tuesday of each month.
"""

import re
from dataclasses import dataclass
from datetime import time

from langmem_graph.errors import InvalidInputError
from langmem_graph.schedule.time_phrases import take_clock

NONE = ("", "none", "null", "n/a", "unknown", "once", "-")
"""What models write for "no time is known" and "it does not recur"."""
_LINE = re.compile(r"(?:^|\s)(RRULE|DTSTART|EXDATE)((?:;[^:\s]*)?):", re.IGNORECASE)
_ONE_TIME = re.compile(r"\d{4}-?\d\d-?\d\d(?:T[\d:]+Z?)?", re.IGNORECASE)
_UNITS = {"hour": "HOURLY", "day": "DAILY", "week": "WEEKLY", "month": "MONTHLY", "year": "YEARLY"}
_ADVERBS = {period.lower(): period for period in _UNITS.values()} | {
    "fortnightly": "WEEKLY;INTERVAL=2",
    "annually": "YEARLY",
}
_NUMBERS = {"other": "2", "two": "2", "three": "3", "four": "4", "six": "6"}
_GROUPS = {"weekend": "SA,SU", "weekday": "MO,TU,WE,TH,FR"}
_DAY = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?s?"
_DATE = r"\d\d?(?:st|nd|rd|th)?"
_PHRASE = re.compile(
    rf"(?:(?P<adverb>{'|'.join(_ADVERBS)})|(?P<every>(?:once )?(?:every|each|an?|per))"
    rf"(?: (?P<number>\d{{1,3}}|{'|'.join(_NUMBERS)}))?(?: (?P<unit>{'|'.join(_UNITS)})s?)?)?"
    rf"(?:(?:^| )(?:on )?(?P<days>weekdays?|weekends?|{_DAY}(?: {_DAY})*))?"
    rf"(?: on (?:the )?(?P<dates>{_DATE}(?: {_DATE})*))?"
)


@dataclass(frozen=True)
class Recurrence:
    """A recurrence as it was written: the rule, and what else stood beside it."""

    rule: str
    clock: time | None = None
    start: str = ""  # of a DTSTART line, in ISO 8601
    zone: str | None = None  # the zone of that line
    skipped: tuple[str, ...] = ()  # of EXDATE lines, in ISO 8601

    @property
    def is_timed(self) -> bool:
        """True for what takes place at a time of day."""
        return bool(self.clock or "BYHOUR" in self.rule)


def read_recurrence(text: str) -> Recurrence | None:
    """The recurrence that a model wrote, None for none; InvalidInputError for any other text."""
    plain = " ".join(text.split())
    if plain.casefold() in NONE:
        return None
    if re.search(r"\bFREQ ?=", plain, re.IGNORECASE):
        return _of_lines(plain)
    if phrase := recurrence_in_words(plain):
        return phrase
    raise _refusal(text)


def recurrence_in_words(text: str) -> Recurrence | None:
    """The recurrence of a phrase such as "every Tuesday at 18:00"; None where it is none."""
    clock, rest = take_clock(text)
    rule = _rule_in_words(" ".join(re.sub(r"[,.&]|\b(?:and|at)\b", " ", rest).split()))
    return Recurrence(rule, clock) if rule else None


def _rule_in_words(phrase: str) -> str | None:
    found = _PHRASE.fullmatch(phrase)
    period = _period(found) if found else None
    if found is None or period is None:
        return None
    days, dates = found["days"], found["dates"]
    misplaced = days and not period.startswith(("DAILY", "WEEKLY"))
    if misplaced or (dates and not period.startswith("MONTHLY")):
        return None
    on_days = f";BYDAY={_weekdays(days)}" if days else ""
    on_dates = f";BYMONTHDAY={','.join(re.findall('[0-9]+', dates))}" if dates else ""
    return f"FREQ={period}{on_days}{on_dates}"


def _period(found: re.Match[str]) -> str | None:
    """`WEEKLY;INTERVAL=2` of "every 2 weeks" and of "every other Tuesday"."""
    if found["adverb"]:
        return _ADVERBS[found["adverb"]]
    number, unit, days = found["number"], found["unit"], found["days"] or ""
    if unit is None:
        are_many = days.endswith("s") or found["every"] in ("every", "each")
        if not days or not are_many or number not in (None, "other"):
            return None
    interval = _NUMBERS.get(number, number) or "1"
    return _UNITS[unit or "week"] + (f";INTERVAL={interval}" if interval != "1" else "")


def _weekdays(days: str) -> str:
    group = _GROUPS.get(days.removesuffix("s"))
    return group or ",".join(dict.fromkeys(day[:2].upper() for day in days.split()))


def _of_lines(text: str) -> Recurrence:
    """The rule of iCalendar's lines, or of a rule alone."""
    before, *parts = _LINE.split(text)
    if before:
        parts = ["RRULE", "", before, *parts]
    names = [name.upper() for name in parts[::3]]
    lines = dict(zip(names, zip(parts[1::3], parts[2::3], strict=True), strict=True))
    if "RRULE" not in lines or len(lines) < len(names):
        raise _refusal(text)
    parameters, start = lines.get("DTSTART", ("", ""))
    zone = re.search(r"TZID=([\w/+-]+)", parameters, re.IGNORECASE)
    skipped = re.findall(r"[^\s,]+", lines.get("EXDATE", ("", ""))[1])
    if not all(map(_ONE_TIME.fullmatch, skipped)):
        raise _refusal(text)
    rule = _plain(lines["RRULE"][1])
    return Recurrence(rule, None, start, zone[1] if zone else None, tuple(skipped))


def _plain(rule: str) -> str:
    """The rule in capitals, without spaces and seconds, its weekdays in two letters."""
    plain = re.sub(r"\s|;BYSECOND=0\b", "", rule.upper()).strip(";")
    longer = r"(?<=[=,\d])([A-Z]{2})[A-Z]+"
    return re.sub("BYDAY=[^;]+", lambda days: re.sub(longer, r"\1", days[0]), plain)


def _refusal(text: str) -> InvalidInputError:
    return InvalidInputError(
        f"recurrence: {text[:200]!r} cannot be read. Give an RFC 5545 rule such as "
        "FREQ=WEEKLY;BYDAY=TU, or nothing where it does not recur."
    )
