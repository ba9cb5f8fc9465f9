"""Where the walk through the times of a rule begins and ends, and that it is short."""

import itertools
import time
from datetime import UTC, datetime, timedelta

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_graph.errors import InvalidInputError
from langmem_graph.schedule.recurrence_rules import first_start, starts_from
from langmem_graph.schedule.times import event_in, occurrences
from tests.support.events import NOW, event
from tests.support.examples import examples

DAY = timedelta(days=1)
HOURS = ",".join(map(str, range(24)))


rules = st.builds(
    ";".join,
    st.tuples(
        st.sampled_from(["FREQ=HOURLY", "FREQ=DAILY", "FREQ=WEEKLY"])
        | st.sampled_from(["FREQ=MONTHLY", "FREQ=YEARLY"]),
        st.integers(1, 40).map("INTERVAL={}".format),
        st.sampled_from(["WKST=SU", "BYDAY=MO,FR", "BYDAY=FR", "BYHOUR=3,9"])
        | st.sampled_from(["BYMONTHDAY=29,-1", "BYMONTH=2", "BYDAY=2TU", "COUNT=90"]),
    ),
)


@settings(max_examples=examples(200), deadline=None)
@given(
    rules,
    st.datetimes(datetime(1950, 1, 1), datetime(2020, 1, 1))
    | st.just(datetime(1996, 2, 29)),
    st.integers(0, 40 * 366).map(lambda days: days * DAY),
    st.integers(0, 3_000).map(lambda days: days * DAY),
)
def test_the_times_do_not_depend_on_where_the_walk_begins(
    rule: str, first: datetime, later: timedelta, span: timedelta
) -> None:
    first = first.replace(second=0, microsecond=0)
    try:
        begin = first_start(rule, first, UTC)
    except InvalidInputError:  # never, or parts that exclude each other
        return
    since = first + later
    until = since + span
    whole = rrulestr(rule, dtstart=first)
    assert begin == next(iter(whole))
    walked = itertools.takewhile(lambda time: time <= until, whole)
    inside = itertools.dropwhile(lambda time: time < since, walked)
    near = starts_from(rule, first, UTC, since, until)
    assert list(itertools.islice(near, 50)) == list(itertools.islice(inside, 50))


@pytest.mark.parametrize("frequency", ["MONTHLY", "YEARLY", "WEEKLY"])
def test_a_start_long_ago_takes_no_longer(frequency: str) -> None:
    rule = f"FREQ={frequency};BYDAY=MO,TU,WE,TH,FR,SA,SU;BYHOUR={HOURS};BYMINUTE=0,30"

    def took(start: str) -> float:
        dense = event(start, recurrence=rule)
        begun = time.thread_time()
        assert len(occurrences(dense, NOW, NOW + DAY)) > 40
        return time.thread_time() - begun

    took("2020-01-01T00:00")
    assert took("1000-01-01T00:00") < 20 * took("2020-01-01T00:00")


@pytest.mark.parametrize("end", ["", ";UNTIL=20990101", ";COUNT=3", ";COUNT=9999"])
@pytest.mark.parametrize("year", [1012, 2016])
def test_rare_days_are_looked_for_once(end: str, year: int) -> None:
    rule = f"FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO{end}"
    rare = {"start": f"{year}-02-29T09:00", "recurrence": rule}
    event_in(rare)
    begun = time.thread_time()
    for _ in range(200):
        kept = event_in(rare)
        assert kept is None or occurrences(kept, NOW, NOW + 60 * DAY) == []
    assert time.thread_time() - begun < 0.5
