"""What a text says of times: days, months, years, times of day and spans of days."""

from dataclasses import dataclass
from datetime import date, time
from typing import Literal, NamedTuple

Kind = Literal[
    "day",
    "weekday",
    "month",
    "year",
    "span",
    "feast",
    "recurrence",
    "clock",
    "ambiguous",
]
Grain = Literal["day", "week", "month", "year"]


class NamedDay(NamedTuple):
    """A date as a text writes it; parts that it leaves out are None."""

    year: int | None
    month: int | None
    day: int | None


class Days(NamedTuple):
    """The first and the last day of what is meant."""

    first: date
    last: date


class Clock(NamedTuple):
    """A time of day, and where a text names one the time at which it ends."""

    start: time
    end: time | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """One time that a text names, with everything that it may mean.

    What does not exist, such as the 31st of June, has no reading.
    """

    kind: Kind
    start: int  # of its words in the text, in characters
    end: int
    days: tuple[Days, ...] = ()
    """Its readings as days, the earliest first; of a date without its year the ones
    before and after the day on which it was said.
    """
    clocks: tuple[Clock, ...] = ()
    """Its readings as times of day; the first is the one that is written."""
    dates: tuple[NamedDay, ...] = ()
    """The dates as they are written: of a span its first and its last, of an ambiguous
    one its readings; none for what is reckoned from the day on which it was said.
    """
    grain: Grain = "day"  # how exact it is: "two weeks ago" is about a week
    weekday: int | None = None  # of a weekday, and of what recurs on one
    is_english: bool = True  # false where a word of it is another language's
    is_utc: bool = False  # of a time of day

    @property
    def has_year(self) -> bool:
        """Whether it names its year, or is reckoned from a known day."""
        return all(named.year for named in self.dates)
