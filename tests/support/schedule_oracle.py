"""When things take place, worked out anew: dateutil's rules, zoneinfo's clocks, nothing of ours.

Everything is expanded to intervals in UTC and compared pair by pair.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

from dateutil.rrule import rrulestr

Interval = tuple[datetime, datetime]
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
FOREVER = 100_000


@dataclass(frozen=True)
class Timed:
    """A time as somebody notes it down; an item of the schedule or a proposal."""

    start: str
    end: str | None = None
    zone: str | None = None
    unit: str = "minute"
    rule: str | None = None


def intervals(timed: Timed, until: datetime) -> list[Interval]:
    """Every time it takes place up to `until`, and some more."""
    zone = ZoneInfo(timed.zone or "UTC")
    first, last = _moment(timed.start, zone), timed.end and _moment(timed.end, zone)
    if timed.unit != "minute":
        days = (_wall(last or first, zone).date(), _wall(first, zone).date())
        return [
            _whole(wall, timed.unit, *days, zone)
            for wall in _walls(timed, first, zone, until)
        ]
    if timed.rule is None:
        return [(first, last if last and last > first else first + HOUR)]
    found = []
    for wall in _walls(timed, first, zone, until):
        begin = _utc(wall, zone)
        end = begin + HOUR
        if last and last > first:
            end = _utc(wall + (_wall(last, zone) - _wall(first, zone)), zone)
        found.append((begin, end if end > begin else begin + (last - first)))  # type: ignore[operator]
    return found


def collisions(item: Timed, proposal: Timed, ahead: timedelta) -> list[Interval]:
    """The item's intervals that share more than an instant with the proposal's."""
    asked = intervals(
        proposal, _moment(proposal.start, ZoneInfo(proposal.zone or "UTC")) + ahead
    )
    own = intervals(item, max(end for _, end in asked))
    return [(a, b) for a, b in own if any(max(a, c) < min(b, d) for c, d in asked)]


def _walls(
    timed: Timed, first: datetime, zone: ZoneInfo, until: datetime
) -> list[datetime]:
    # a week begins before its Friday
    margin = 2 * DAY if timed.unit == "minute" else 370 * DAY
    start, stop = _wall(first, zone), _wall(until, zone) + margin
    if timed.rule is None:
        return [start]
    limit = re.search(r"UNTIL=([^;]+)", timed.rule)
    rule = rrulestr(re.sub(r";?UNTIL=[^;]+", "", timed.rule), dtstart=start)
    assert rule is not None
    last = _last(limit[1], zone) if limit else stop
    return list(
        takewhile(
            lambda wall: wall <= last and wall < stop, rule.xafter(start, FOREVER, True)
        )
    )


def _last(text: str, zone: ZoneInfo) -> datetime:
    if "T" not in text:
        return datetime.combine(datetime.strptime(text, "%Y%m%d"), time.max)
    if text.endswith("Z"):
        return _wall(
            datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC), zone
        )
    return datetime.strptime(text, "%Y%m%dT%H%M%S")


def _whole(
    wall: datetime, unit: str, last: object, first: object, zone: ZoneInfo
) -> Interval:
    """Whole days, weeks (from Monday), months or years, as many as from `first` to `last`."""
    here = wall.date().toordinal()
    begin, end = first.toordinal(), last.toordinal()  # type: ignore[attr-defined]
    if unit == "day":
        edges = here, here + end - begin + 1
    elif unit == "week":  # day 1 was a Monday
        monday = here - (here - 1) % 7
        edges = monday, monday + 7 * ((end - 1) // 7 - (begin - 1) // 7 + 1)
    else:
        size = 1 if unit == "month" else 12
        spans = _month(end) // size - _month(begin) // size + 1
        month = _month(here) // size * size
        edges = _first_of(month), _first_of(month + spans * size)
    midnight, after = (
        datetime.combine(datetime.fromordinal(e), time.min) for e in edges
    )
    return _utc(midnight, zone), _utc(after, zone)


def _month(ordinal: int) -> int:
    day = datetime.fromordinal(ordinal)
    return day.year * 12 + day.month - 1


def _first_of(month: int) -> int:
    return datetime(month // 12, month % 12 + 1, 1).toordinal()


def _moment(text: str, zone: ZoneInfo) -> datetime:
    if re.fullmatch(r"\d{4}", text):
        text += "-01"
    if re.fullmatch(r"\d{4}-\d\d", text):
        text += "-01"
    read = datetime.fromisoformat(text)
    return (read if read.tzinfo else read.replace(tzinfo=zone)).astimezone(UTC)


def _wall(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)


def _utc(wall: datetime, zone: ZoneInfo) -> datetime:
    return wall.replace(tzinfo=zone).astimezone(UTC)
