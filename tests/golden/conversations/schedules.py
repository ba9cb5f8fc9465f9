"""Appointments: what is planned, what has passed, what collides."""

from pathlib import Path

from tests.golden.support import Talk, conversation, extraction, memory, said

PLAN = {"facet": "schedule", "kind": "event"}


@conversation
def week_of_appointments(path: Path) -> Talk:
    talk = Talk(
        path,
        "One-off and weekly appointments; requests that collide with them, or do not.",
        Extraction=[
            extraction(
                memory(
                    "The user sees the dentist.", "m1", when="2025-03-04T15:30", **PLAN
                ),
                memory(
                    "The team has its standup.",
                    "m2",
                    when="2025-03-04T09:00",
                    until="2025-03-04T09:15",
                    recurrence="FREQ=WEEKLY;BYDAY=TU",
                    **PLAN,
                ),
                memory("The user travels to Riga.", "m3", when="2025-03-20", **PLAN),
                memory("The user wants to do something.", "m4", when="", **PLAN),
                memory("todo", "m4", when="2025-03-06T10:00", **PLAN),
                memory("The user has a course.", "m4", when="2025-04", **PLAN),
                memory(
                    "The user swims.",
                    "m4",
                    when="2025-03-07T07:00",
                    recurrence="often",
                    **PLAN,
                ),
            )
        ],
    ).open()
    bea = talk.user("bea")
    bea.add(
        [
            said("Dentist on March 4 at 15:30.", "s1"),
            said("Standup every Tuesday at 9, a quarter of an hour.", "s2"),
            said("I travel to Riga on March 20.", "s3"),
            said("I want to do something, and swim often.", "s4"),
        ],
        session_id="s",
    )
    bea.flush()
    bea.export_records()
    asked = {
        "Can we meet on Tuesday at 15:45?": "2025-03-03T08:00",
        "Set the review for next Tuesday at 9:05.": "2025-03-04T08:00",
        "Can I see a film tomorrow at 20:00?": "2025-03-03T08:00",
        "Book a table for March 20 at 12:00.": "2025-03-10T08:00",
        "What's next?": "2025-03-03T08:00",
    }
    for query, at in asked.items():
        bea.recall(query, at=at)
    bea.recall("What do I have on Tuesday?", at="2025-03-03T08:00", mode="auto")
    return talk


@conversation
def time_that_passes(path: Path) -> Talk:
    talk = Talk(
        path,
        "Later talk of the schedule: what is over is marked, what recurs stays.",
        Extraction=[
            extraction(
                memory("The user meets the landlord.", when="2025-01-10T10:00", **PLAN),
                memory(
                    "The user plays squash.",
                    when="2025-01-08T18:00",
                    recurrence="FREQ=WEEKLY;BYDAY=WE",
                    **PLAN,
                ),
            ),
            extraction(
                memory("The user meets the plumber.", when="2025-02-20T08:00", **PLAN)
            ),
        ],
    ).open(time_zone="Europe/Madrid")
    gil = talk.user("gil")
    first = "I meet the landlord on January 10 at 10, and play squash every Wednesday at 18:00."
    gil.add([said(first, "q1", "2025-01-06T20:00")], session_id="1")
    gil.flush()
    later = said("The plumber comes on February 20 at 8.", "q2", "2025-02-15T23:30")
    gil.add([later], session_id="2")
    gil.flush()
    gil.export_records(history=True)
    for hit in gil.search_records("meets plays"):
        gil.history(hit.record_id)
    gil.recall("Can we move the call to Wednesday at 18:30?", at="2025-02-17T08:00")
    gil.recall("Can we talk on February 20 at 8:15?", at="2025-02-17T08:00")
    return talk


@conversation
def time_read_by_the_model(path: Path) -> Talk:
    talk = Talk(
        path,
        "Where the words name no time, the model's reading is compared; unusable ones are not.",
        Extraction=[
            extraction(
                memory("The user has a concert.", when="2025-06-12T19:00", **PLAN)
            )
        ],
        GoalPlan=[
            {"intent": "act", "sure": True, **time}
            for time in (
                {"start": "2025-06-12T19:30", "end": "2025-06-12T20:30"},
                {"start": "some day", "end": "later"},
                {"start": "2025", "recurrence": "daily"},
                {"start": "2025-06-05T19:00", "recurrence": "FREQ=WEEKLY;BYDAY=TH"},
            )
        ],
    ).open()
    fay = talk.user("fay")
    fay.add(
        [said("My concert is on June 12 at 19:00.", "f1", "2025-06-01")], session_id="s"
    )
    fay.flush()
    for query in (
        "Please book the sauna for the evening of the concert's day.",
        "Please book it some time.",
        "Please order a calendar.",
        "Please sign me up for the weekly course.",
    ):
        fay.recall(query, mode="reason", at="2025-06-02T09:00")
    return talk
