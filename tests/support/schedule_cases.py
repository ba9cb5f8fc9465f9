"""Written cases of a proposal and a schedule, each with what collides, and when."""

from dataclasses import dataclass, field
from typing import Any

from tests.support.schedule_oracle import Timed

MADRID, NEW_YORK, LONDON = "Europe/Madrid", "America/New_York", "Europe/London"
TOKYO, KATHMANDU, AUCKLAND = "Asia/Tokyo", "Asia/Kathmandu", "Pacific/Auckland"
HONOLULU, LORD_HOWE, KIRITIMATI = (
    "Pacific/Honolulu",
    "Australia/Lord_Howe",
    "Pacific/Kiritimati",
)


@dataclass(frozen=True)
class Item:
    """One record of the schedule; `counts` is False where it is none of what is planned."""

    text: str
    time: Timed | None
    record: dict[str, Any] = field(default_factory=dict)
    counts: bool = True


@dataclass(frozen=True)
class Case:
    """A schedule, a proposal as written, and of what collides the time in UTC."""

    name: str
    items: list[Item]
    asked: Timed
    expected: dict[str, str]
    meant: Timed | None = None
    """How a careless proposal is understood."""


def at(
    start: str, end: str | None = None, zone: str | None = None, **more: Any
) -> Timed:
    return Timed(start, end, zone, **more)


def day(
    start: str, end: str | None = None, zone: str | None = None, **more: Any
) -> Timed:
    return Timed(start, end, zone, "day", **more)


def item(text: str, time: Timed | None, counts: bool = True, **record: Any) -> Item:
    return Item(text, time, record, counts)


REVIEW = item("review", at("2025-06-03T15:00", "2025-06-03T16:00"))

STANDUP = item(
    "standup",
    at("2025-03-03T09:00", "2025-03-03T09:30", MADRID, rule="FREQ=WEEKLY;BYDAY=MO"),
)

CALL = item(
    "call", at("2025-03-03T10:00", "2025-03-03T11:00", NEW_YORK, rule="FREQ=WEEKLY")
)
NIGHT = item(
    "night shift", at("2025-03-01T22:00", "2025-03-02T06:00", MADRID, rule="FREQ=DAILY")
)
YOGA = item(
    "yoga", at("2025-06-03T18:00", "2025-06-03T19:00", rule="FREQ=WEEKLY;INTERVAL=2")
)
PAYDAY = item("payday", day("2025-01-31", rule="FREQ=MONTHLY;BYMONTHDAY=-1"))
LEAP = item(
    "leap party", at("2024-02-29T20:00", "2024-02-29T23:00", rule="FREQ=YEARLY")
)
TRIP = item("trip", day("2025-06-03", "2025-06-05"))
NOTHING: dict[str, str] = {}

CASES = [
    # --- plain ---
    Case("inside it", [REVIEW], at("2025-06-03T15:15", "2025-06-03T15:30"),
         {"review": "2025-06-03 15:00/2025-06-03 16:00"}),
    Case("around it", [REVIEW], at("2025-06-03T14:00", "2025-06-03T18:00"),
         {"review": "2025-06-03 15:00/2025-06-03 16:00"}),
    Case("into its beginning", [REVIEW], at("2025-06-03T14:30", "2025-06-03T15:01"),
         {"review": "2025-06-03 15:00/2025-06-03 16:00"}),
    Case("into its end", [REVIEW], at("2025-06-03T15:59", "2025-06-03T17:00"),
         {"review": "2025-06-03 15:00/2025-06-03 16:00"}),
    Case("the same time", [REVIEW], at("2025-06-03T15:00", "2025-06-03T16:00"),
         {"review": "2025-06-03 15:00/2025-06-03 16:00"}),
    Case("another day", [REVIEW], at("2025-06-04T15:00", "2025-06-04T16:00"), NOTHING),
    Case("an empty schedule", [], at("2025-06-03T15:00"), NOTHING),
    Case("two of three", [
            REVIEW,
            item("dentist", at("2025-06-03T15:30", "2025-06-03T16:30")),
            item("dinner", at("2025-06-03T20:00", "2025-06-03T22:00")),
         ], at("2025-06-03T15:45", "2025-06-03T16:15"),
         {"review": "2025-06-03 15:00/2025-06-03 16:00",
          "dentist": "2025-06-03 15:30/2025-06-03 16:30"}),
    # --- touching ---
    Case("ends as it begins", [REVIEW], at("2025-06-03T14:00", "2025-06-03T15:00"), NOTHING),
    Case("begins as it ends", [REVIEW], at("2025-06-03T16:00", "2025-06-03T17:00"), NOTHING),
    Case("a second too long", [REVIEW], at("2025-06-03T14:00", "2025-06-03T15:00:01"),
         {"review": "2025-06-03 15:00/2025-06-03 16:00"}),
    Case("touches in another zone", [REVIEW],
         at("2025-06-03T18:00", "2025-06-03T19:00", MADRID), NOTHING),
    Case("between two that touch", [
            item("first", at("2025-06-03T09:00", "2025-06-03T10:00")),
            item("second", at("2025-06-03T11:00", "2025-06-03T12:00")),
         ], at("2025-06-03T10:00", "2025-06-03T11:00"), NOTHING),
    # --- without an end: an hour ---
    Case("a proposal without an end", [REVIEW], at("2025-06-03T14:30"),
         {"review": "2025-06-03 15:00/2025-06-03 16:00"}),
    Case("a proposal an hour before", [REVIEW], at("2025-06-03T14:00"), NOTHING),
    Case("an item without an end", [item("call Eva", at("2025-06-03T15:00"))],
         at("2025-06-03T15:59", "2025-06-03T16:30"),
         {"call Eva": "2025-06-03 15:00/2025-06-03 16:00"}),
    Case("after an item without an end", [item("call Eva", at("2025-06-03T15:00"))],
         at("2025-06-03T16:00"), NOTHING),
    Case("neither has an end", [item("call Eva", at("2025-06-03T15:00"))], at("2025-06-03T15:45"),
         {"call Eva": "2025-06-03 15:00/2025-06-03 16:00"}),
    Case("an end that is the beginning", [item("call", at("2025-06-03T15:00", "2025-06-03T15:00"))],
         at("2025-06-03T15:30"), {"call": "2025-06-03 15:00/2025-06-03 16:00"}),
    # --- all day ---
    Case("a time on an all-day item", [TRIP], at("2025-06-03T15:00"),
         {"trip": "2025-06-03 00:00/2025-06-06 00:00"}),
    Case("the last of several days", [TRIP], at("2025-06-05T23:30", "2025-06-05T23:45"),
         {"trip": "2025-06-03 00:00/2025-06-06 00:00"}),
    Case("the day after several days", [TRIP], at("2025-06-06T00:00"), NOTHING),
    Case("the evening before", [TRIP], at("2025-06-02T23:00"), NOTHING),
    Case("a whole day is proposed", [REVIEW], day("2025-06-03"),
         {"review": "2025-06-03 15:00/2025-06-03 16:00"}),
    Case("another whole day is proposed", [REVIEW], day("2025-06-04"), NOTHING),
    Case("whole days on both sides", [TRIP], day("2025-06-05", "2025-06-09"),
         {"trip": "2025-06-03 00:00/2025-06-06 00:00"}),
    Case("a day in another zone ends earlier", [item("holiday", day("2025-06-03", zone=TOKYO))],
         at("2025-06-03T15:30", "2025-06-03T16:00"), NOTHING),
    Case("a day in another zone begins earlier", [item("holiday", day("2025-06-03", zone=TOKYO))],
         at("2025-06-02T15:30", "2025-06-02T16:00"),
         {"holiday": "2025-06-02 15:00/2025-06-03 15:00"}),
    Case("the first day on earth and the last",
         [item("holiday", day("2025-06-03", zone=KIRITIMATI))],
         day("2025-06-03", zone=HONOLULU), NOTHING),
    Case("a week named by its Wednesday", [item("fair", at("2025-05-07", unit="week"))],
         at("2025-05-05T10:00"), {"fair": "2025-05-05 00:00/2025-05-12 00:00"}),
    # what is known to a month or a year only says nothing about a time in it
    Case("some time in a month", [item("visit", at("2025-06-18", unit="month"), counts=False)],
         at("2025-06-02T10:00"), NOTHING),
    Case("some time in a year", [item("sabbatical", at("2025-09-01", unit="year"), counts=False)],
         at("2025-01-01T00:00"), NOTHING),
    Case("a week is proposed", [item("exam", at("2025-06-08T22:00"))],
         at("2025-W23", unit="week"), {"exam": "2025-06-08 22:00/2025-06-08 23:00"}),
    # --- over midnight, several days ---
    Case("after midnight", [item("party", at("2025-06-03T22:00", "2025-06-04T02:00"))],
         at("2025-06-04T01:00"), {"party": "2025-06-03 22:00/2025-06-04 02:00"}),
    Case("as the party ends", [item("party", at("2025-06-03T22:00", "2025-06-04T02:00"))],
         at("2025-06-04T02:00"), NOTHING),
    Case("a proposal over midnight", [item("train", at("2025-06-04T00:30", "2025-06-04T05:00"))],
         at("2025-06-03T23:00", "2025-06-04T01:00"),
         {"train": "2025-06-04 00:30/2025-06-04 05:00"}),
    Case("no end, over midnight", [item("train", at("2025-06-04T00:15"))], at("2025-06-03T23:30"),
         {"train": "2025-06-04 00:15/2025-06-04 01:15"}),
    Case("only midnight touches", [item("train", at("2025-06-04T00:00"))],
         at("2025-06-03T22:00", "2025-06-04T00:00"), NOTHING),
    Case("a night shift, from the next day", [NIGHT], at("2025-06-04T05:00", zone=MADRID),
         {"night shift": "2025-06-03 20:00/2025-06-04 04:00"}),
    Case("a night shift, at noon", [NIGHT], at("2025-06-04T12:00", zone=MADRID), NOTHING),
    Case("the middle of a festival", [item("festival", at("2025-06-02T18:00", "2025-06-09T12:00"))],
         at("2025-06-05T03:00"), {"festival": "2025-06-02 18:00/2025-06-09 12:00"}),
    Case("a proposal of months", [item("exam", at("2025-08-15T10:00"))],
         day("2025-06-01", "2025-09-30"), {"exam": "2025-08-15 10:00/2025-08-15 11:00"}),
    Case("a proposal of months and what recurs each year",
         [item("fair", day("2020-08-15", rule="FREQ=YEARLY"))], day("2025-06-01", "2025-09-30"),
         {"fair": "2025-08-15 00:00/2025-08-16 00:00"}),
    # --- recurring ---
    Case("daily", [item("lunch", at("2025-01-01T12:00", "2025-01-01T13:00", rule="FREQ=DAILY"))],
         at("2025-06-03T12:30"), {"lunch": "2025-06-03 12:00/2025-06-03 13:00"}),
    Case("every third day, on it",
         [item("run", at("2025-06-01T07:00", rule="FREQ=DAILY;INTERVAL=3"))],
         at("2025-06-07T07:30"), {"run": "2025-06-07 07:00/2025-06-07 08:00"}),
    Case("every third day, off it",
         [item("run", at("2025-06-01T07:00", rule="FREQ=DAILY;INTERVAL=3"))],
         at("2025-06-08T07:30"), NOTHING),
    Case("weekly",
         [item("class", at("2025-01-07T15:00", rule="FREQ=WEEKLY"))], at("2025-06-03T15:30"),
         {"class": "2025-06-03 15:00/2025-06-03 16:00"}),
    Case("weekly, another weekday", [item("class", at("2025-01-07T15:00", rule="FREQ=WEEKLY"))],
         at("2025-06-04T15:30"), NOTHING),
    Case("by weekday", [item("gym", at("2025-06-02T07:00", rule="FREQ=WEEKLY;BYDAY=MO,WE,FR"))],
         at("2025-06-13T07:15"), {"gym": "2025-06-13 07:00/2025-06-13 08:00"}),
    Case("by another weekday",
         [item("gym", at("2025-06-02T07:00", rule="FREQ=WEEKLY;BYDAY=MO,WE,FR"))],
         at("2025-06-12T07:15"), NOTHING),
    Case("a week of every other", [YOGA], at("2025-06-17T18:30"),
         {"yoga": "2025-06-17 18:00/2025-06-17 19:00"}),
    Case("the week between", [YOGA], at("2025-06-10T18:30"), NOTHING),
    Case("every other week, weeks from Sunday",
         [item("choir", at("2025-06-01T18:00", rule="FREQ=WEEKLY;INTERVAL=2;BYDAY=SU,TU;WKST=SU"))],
         at("2025-06-03T18:00"), {"choir": "2025-06-03 18:00/2025-06-03 19:00"}),
    Case("every other week, weeks from Monday",
         [item("choir", at("2025-06-01T18:00", rule="FREQ=WEEKLY;INTERVAL=2;BYDAY=SU,TU"))],
         at("2025-06-03T18:00"), NOTHING),
    Case("monthly", [item("rent", at("2025-01-03T09:00", rule="FREQ=MONTHLY"))],
         at("2025-06-03T09:30"), {"rent": "2025-06-03 09:00/2025-06-03 10:00"}),
    Case("monthly on the 31st, in June",
         [item("rent", at("2025-01-31T09:00", rule="FREQ=MONTHLY"))],
         at("2025-06-30T09:30"), NOTHING),
    Case("the last day of the month", [PAYDAY], at("2025-02-28T10:00"),
         {"payday": "2025-02-28 00:00/2025-03-01 00:00"}),
    Case("the second Tuesday",
         [item("board", at("2025-01-14T15:00", rule="FREQ=MONTHLY;BYDAY=2TU"))],
         at("2025-06-10T15:00"), {"board": "2025-06-10 15:00/2025-06-10 16:00"}),
    Case("the first Tuesday",
         [item("board", at("2025-01-14T15:00", rule="FREQ=MONTHLY;BYDAY=2TU"))],
         at("2025-06-03T15:00"), NOTHING),
    Case("the last Friday",
         [item("beer", at("2025-01-31T17:00", rule="FREQ=MONTHLY;BYDAY=-1FR"))],
         at("2025-06-27T17:30"), {"beer": "2025-06-27 17:00/2025-06-27 18:00"}),
    Case("the last working day",
         [item("report", at("2025-01-31T16:00",
               rule="FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1"))],
         at("2025-08-29T16:30"), {"report": "2025-08-29 16:00/2025-08-29 17:00"}),
    Case("yearly",
         [item("birthday", day("1990-06-03", rule="FREQ=YEARLY"))], at("2025-06-03T15:00"),
         {"birthday": "2025-06-03 00:00/2025-06-04 00:00"}),
    Case("twice a day", [item("pills", at("2025-01-01T08:00", "2025-01-01T08:10",
                              rule="FREQ=DAILY;BYHOUR=8,20"))],
         at("2025-06-03T19:30", "2025-06-03T20:05"),
         {"pills": "2025-06-03 20:00/2025-06-03 20:10"}),
    Case("every six hours", [item("feed", at("2025-06-01T03:00", "2025-06-01T03:15",
                                  rule="FREQ=HOURLY;INTERVAL=6"))],
         at("2025-06-03T15:00", "2025-06-03T15:05"), {"feed": "2025-06-03 15:00/2025-06-03 15:15"}),
    Case("before the first time", [STANDUP], at("2025-02-24T09:00", zone=MADRID), NOTHING),
    Case("a start that the rule leaves out",
         [item("gym", at("2025-06-03T07:00", rule="FREQ=WEEKLY;BYDAY=WE"))],
         at("2025-06-03T07:00"), NOTHING),
    Case("the only time of a count",
         [item("course", at("2025-06-03T15:00", rule="FREQ=DAILY;COUNT=3"))],
         at("2025-06-05T15:00"), {"course": "2025-06-05 15:00/2025-06-05 16:00"}),
    Case("after a count", [item("course", at("2025-06-03T15:00", rule="FREQ=DAILY;COUNT=3"))],
         at("2025-06-06T15:00"), NOTHING),
    Case("on the day of UNTIL",
         [item("course", at("2025-06-02T15:00", rule="FREQ=DAILY;UNTIL=20250605"))],
         at("2025-06-05T15:00"), {"course": "2025-06-05 15:00/2025-06-05 16:00"}),
    Case("after the day of UNTIL",
         [item("course", at("2025-06-02T15:00", rule="FREQ=DAILY;UNTIL=20250605"))],
         at("2025-06-06T15:00"), NOTHING),
    Case("UNTIL in UTC, in a zone ahead of it",
         [item("course", at("2025-06-02T08:00", zone=TOKYO,
           rule="FREQ=DAILY;UNTIL=20250604T225959Z"))],
         at("2025-06-05T08:00", zone=TOKYO), NOTHING),
    Case("UNTIL in UTC, to the minute",
         [item("course", at("2025-06-02T08:00", zone=TOKYO,
           rule="FREQ=DAILY;UNTIL=20250604T230000Z"))],
         at("2025-06-05T08:00", zone=TOKYO), {"course": "2025-06-04 23:00/2025-06-05 00:00"}),
    # --- proposals that recur ---
    Case("a weekly proposal meets a later date", [item("exam", at("2025-06-24T15:30"))],
         at("2025-06-03T15:00", rule="FREQ=WEEKLY"), {"exam": "2025-06-24 15:30/2025-06-24 16:30"}),
    Case("a weekly proposal between", [item("exam", at("2025-06-25T15:30"))],
         at("2025-06-03T15:00", rule="FREQ=WEEKLY"), NOTHING),
    Case("every other week against every other week", [YOGA],
         at("2025-06-10T18:00", rule="FREQ=WEEKLY;INTERVAL=2"), NOTHING),
    Case("every other week against every third", [YOGA],
         at("2025-06-10T18:00", rule="FREQ=WEEKLY;INTERVAL=3"),
         {"yoga": "2025-07-01 18:00/2025-07-01 19:00"}),
    # --- clocks that change ---
    Case("nine o'clock in winter", [STANDUP], at("2025-03-24T08:15", "2025-03-24T08:20"),
         {"standup": "2025-03-24 08:00/2025-03-24 08:30"}),
    Case("nine o'clock in summer", [STANDUP], at("2025-03-31T07:15", "2025-03-31T07:20"),
         {"standup": "2025-03-31 07:00/2025-03-31 07:30"}),
    Case("what was nine in winter", [STANDUP], at("2025-03-31T08:15", "2025-03-31T08:20"), NOTHING),
    Case("neither has changed its clocks", [CALL], at("2025-03-03T16:00", zone=MADRID),
         {"call": "2025-03-03 15:00/2025-03-03 16:00"}),
    Case("America has, Europe has not", [CALL], at("2025-03-17T15:00", zone=MADRID),
         {"call": "2025-03-17 14:00/2025-03-17 15:00"}),
    Case("America has, at the old hour", [CALL], at("2025-03-17T16:00", zone=MADRID), NOTHING),
    Case("both have", [CALL], at("2025-03-31T16:00", zone=MADRID),
         {"call": "2025-03-31 14:00/2025-03-31 15:00"}),
    Case("Europe has gone back, America has not", [CALL], at("2025-10-27T15:00", zone=MADRID),
         {"call": "2025-10-27 14:00/2025-10-27 15:00"}),
    Case("both have gone back", [CALL], at("2025-11-03T16:00", zone=MADRID),
         {"call": "2025-11-03 15:00/2025-11-03 16:00"}),
    Case("an hour that is skipped", [item("alarm", at("2025-03-30T02:30", zone=MADRID))],
         at("2025-03-30T03:45", zone=MADRID), {"alarm": "2025-03-30 01:30/2025-03-30 02:30"}),
    Case("the skipped hour of what recurs",
         [item("alarm", at("2025-03-29T02:30", "2025-03-29T02:50", MADRID, rule="FREQ=DAILY"))],
         at("2025-03-30T03:40", "2025-03-30T03:45", MADRID),
         {"alarm": "2025-03-30 01:30/2025-03-30 01:50"}),
    Case("an hour over the gap is an hour", [item("bath", at("2025-03-30T01:30", zone=MADRID))],
         at("2025-03-30T03:30", zone=MADRID), NOTHING),
    Case("the first of two hours",
         [item("alarm", at("2025-10-26T02:15+02:00", "2025-10-26T02:45+02:00"))],
         at("2025-10-26T02:15+01:00", "2025-10-26T02:45+01:00"), NOTHING),
    Case("the second of two hours",
         [item("alarm", at("2025-10-26T02:15+01:00", "2025-10-26T02:45+01:00"))],
         at("2025-10-26T02:30+01:00", "2025-10-26T02:45+01:00"),
         {"alarm": "2025-10-26 01:15/2025-10-26 01:45"}),
    Case("over the repeated hour",
         [item("vigil", at("2025-10-26T01:00", "2025-10-26T04:00", MADRID))],
         at("2025-10-26T02:30", "2025-10-26T02:45"),
         {"vigil": "2025-10-25 23:00/2025-10-26 03:00"}),
    Case("a short night", [NIGHT], at("2025-03-30T05:30", zone=MADRID),
         {"night shift": "2025-03-29 21:00/2025-03-30 04:00"}),
    Case("a long night", [NIGHT], at("2025-10-26T05:30", zone=MADRID),
         {"night shift": "2025-10-25 20:00/2025-10-26 05:00"}),
    Case("a day of 23 hours", [item("fair", day("2025-03-30", zone=MADRID))],
         at("2025-03-31T00:00", zone=MADRID), NOTHING),
    Case("a day of 25 hours", [item("fair", day("2025-10-26", zone=MADRID))],
         at("2025-10-26T23:30", "2025-10-26T23:45", MADRID),
         {"fair": "2025-10-25 22:00/2025-10-26 23:00"}),
    Case("half an hour of summer time",
         [item("surf", at("2025-10-04T09:00", zone=LORD_HOWE, rule="FREQ=DAILY"))],
         at("2025-10-05T09:45", zone=LORD_HOWE), {"surf": "2025-10-04 22:00/2025-10-04 23:00"}),
    Case("the south goes the other way",
         [item("rugby", at("2025-04-05T10:00", zone=AUCKLAND, rule="FREQ=WEEKLY"))],
         at("2025-04-12T10:30", zone=AUCKLAND), {"rugby": "2025-04-11 22:00/2025-04-11 23:00"}),
    # --- zones ---
    Case("the same hour elsewhere", [item("lunch", at("2025-06-03T15:00", zone=MADRID))],
         at("2025-06-03T15:00", zone=NEW_YORK), NOTHING),
    Case("the same moment elsewhere", [item("lunch", at("2025-06-03T15:00", zone=MADRID))],
         at("2025-06-03T09:15", zone=NEW_YORK), {"lunch": "2025-06-03 13:00/2025-06-03 14:00"}),
    Case("the day before, elsewhere", [item("breakfast", at("2025-06-04T08:00", zone=TOKYO))],
         at("2025-06-03T19:30", zone=NEW_YORK), {"breakfast": "2025-06-03 23:00/2025-06-04 00:00"}),
    Case("three quarters of an hour", [item("tea", at("2025-06-03T15:00", zone=KATHMANDU))],
         at("2025-06-03T10:10", zone=LONDON), {"tea": "2025-06-03 09:15/2025-06-03 10:15"}),
    Case("an offset and a zone", [item("lunch", at("2025-06-03T15:00", zone=MADRID))],
         at("2025-06-03T22:30+09:00"), {"lunch": "2025-06-03 13:00/2025-06-03 14:00"}),
    Case("a zone's Monday is another's Sunday",
         [item("class", at("2025-06-02T08:00", zone=AUCKLAND, rule="FREQ=WEEKLY;BYDAY=MO"))],
         at("2025-06-08T20:30"), {"class": "2025-06-08 20:00/2025-06-08 21:00"}),
    # --- far away, leap days ---
    Case("far future", [item("comet", at("2999-12-31T23:30"))], at("3000-01-01T00:00"),
         {"comet": "2999-12-31 23:30/3000-01-01 00:30"}),
    Case("a daily thing, decades on",
         [item("lunch", at("2025-01-01T12:00", zone=MADRID, rule="FREQ=DAILY"))],
         at("2085-07-01T12:30", zone=MADRID), {"lunch": "2085-07-01 10:00/2085-07-01 11:00"}),
    Case("the past", [REVIEW], at("1999-06-03T15:00"), NOTHING),
    Case("both in the past", [item("concert", at("1999-06-03T20:00"))], at("1999-06-03T20:30"),
         {"concert": "1999-06-03 20:00/1999-06-03 21:00"}),
    Case("a leap day", [item("party", day("2028-02-29"))], at("2028-02-29T15:00"),
         {"party": "2028-02-29 00:00/2028-03-01 00:00"}),
    Case("over a leap day", [item("drive", at("2028-02-28T22:00", "2028-03-01T02:00"))],
         at("2028-02-29T12:00"), {"drive": "2028-02-28 22:00/2028-03-01 02:00"}),
    Case("each leap year", [LEAP], at("2028-02-29T22:00"),
         {"leap party": "2028-02-29 20:00/2028-02-29 23:00"}),
    Case("no leap year", [LEAP], at("2027-02-28T22:00"), NOTHING),
    Case("no leap year, the day after", [LEAP], at("2027-03-01T22:00"), NOTHING),
    # --- what is planned no more, or was never ---
    Case("superseded", [
            item("review at three", at("2025-06-03T15:00"), counts=False, record_id="old"),
            item("review at five", at("2025-06-03T17:00"), supersedes=["old"]),
         ], at("2025-06-03T15:00"), NOTHING),
    Case("what superseded it", [
            item("review at three", at("2025-06-03T15:00"), counts=False, record_id="old"),
            item("review at five", at("2025-06-03T17:00"), supersedes=["old"]),
         ], at("2025-06-03T17:30"), {"review at five": "2025-06-03 17:00/2025-06-03 18:00"}),
    Case("cancelled", [
            item("review", at("2025-06-03T15:00"), counts=False, record_id="old"),
            item("The review is cancelled.", None, supersedes=["old"]),
         ], at("2025-06-03T15:00"), NOTHING),
    Case("discarded", [item("review", at("2025-06-03T15:00"), counts=False, status="discarded")],
         at("2025-06-03T15:00"), NOTHING),
    Case("expired", [item("review", at("2025-06-03T15:00"), counts=False, valid_to="2025-01-01")],
         at("2025-06-03T15:00"), NOTHING),
    Case("dated, but no schedule item", [item("review", at("2025-06-03T15:00"), facet="none")],
         at("2025-06-03T15:00"), {"review": "2025-06-03 15:00/2025-06-03 16:00"}),
    Case("another's appointment is named with whose it is",
         [item("Tom sees the dentist.", at("2025-06-03T15:00"), subject="Tom")],
         at("2025-06-03T15:30"), {"Tom sees the dentist.": "2025-06-03 15:00/2025-06-03 16:00"}),
    # --- careless ---
    Case("a proposal that ends before it begins", [item("train", at("2025-06-04T01:00"))],
         at("2025-06-03T22:00", "2025-06-03T02:00"),
         {"train": "2025-06-04 01:00/2025-06-04 02:00"},
         at("2025-06-03T22:00", "2025-06-04T02:00")),
    Case("a proposal that ended days ago", [item("train", at("2025-06-03T23:30"))],
         at("2025-06-03T22:00", "2025-05-01T10:00"), NOTHING, at("2025-06-03T22:00")),
    Case("an end that is a mere day", [item("train", at("2025-06-05T18:00"))],
         at("2025-06-03T22:00", "2025-06-05"), {"train": "2025-06-05 18:00/2025-06-05 19:00"},
         at("2025-06-03T22:00", "2025-06-06T00:00")),
    Case("an end that is the same mere day", [item("train", at("2025-06-03T23:30"))],
         at("2025-06-03T22:00", "2025-06-03"), NOTHING, at("2025-06-03T22:00")),
    Case("days that end before they begin", [item("train", at("2025-06-02T12:00"))],
         day("2025-06-03", "2025-06-01"), NOTHING, day("2025-06-03")),
    Case("an end that is no time", [REVIEW], at("2025-06-03T14:30", "late"),
         {"review": "2025-06-03 15:00/2025-06-03 16:00"}, at("2025-06-03T14:30")),
    Case("a rule that is none", [REVIEW], at("2025-06-03T14:30", rule="now and then"),
         {"review": "2025-06-03 15:00/2025-06-03 16:00"}, at("2025-06-03T14:30")),
    Case("an item that ends before it begins",
         [item("review", at("2025-06-03T15:00", "2025-06-03T14:00"), counts=False)],
         at("2025-06-03T14:30"), NOTHING),
]  # fmt: skip
