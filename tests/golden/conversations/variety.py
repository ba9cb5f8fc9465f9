"""Many small cases: values and times in all kinds of words; asynchronous twins."""

import asyncio
from pathlib import Path
from typing import Any

from langmem_graph.graphs import (
    create_grounding_graph,
    create_recall_graph,
    create_write_graph,
)
from tests.golden.conversations.goals import ASKED, FAMILY, PLAN, prove
from tests.golden.conversations.grounding import ASKED as FERRY_ASKED
from tests.golden.conversations.grounding import FERRY, good
from tests.golden.support import Talk, alias, conversation, extraction, memory, said

VALUES = [
    "It cost $1,200.50 and 3.400,25 € and 99 CHF.",
    "We met on 7 May 2023, 2023-05-08, 09.05.2023, 3/5/2023 and 13/5/2023.",
    "The call is at 7 pm, 19:45, 12 a.m. and 8:05:30.",
    "Mail me at Uta@Example.org, see https://example.org/a?b=1, flight LH 1234.",
    "It weighs -3.5 kg, 12 %, 1'000 km, in June 2024, on June 31 and 5月7日.",
]


@conversation
def values_in_words(path: Path) -> Talk:
    rows = [memory(text, f"m{n}") for n, text in enumerate(VALUES, 1)]
    other = [
        memory("It cost 1200.50 dollars on May 7, 2023 at 19:00.", "m1", "m2", "m3"),
        memory("It cost 1,250 dollars.", "m1"),
    ]
    talk = Talk(
        path,
        "Amounts, dates, times, addresses: as they were said, and in another form.",
        Extraction=[extraction(*rows, *other)],
    ).open()
    uta = talk.user("uta")
    messages = [
        said(text, f"w{n}", f"2024-01-0{n}") for n, text in enumerate(VALUES, 1)
    ]
    uta.add(messages, session_id="s")
    uta.flush()
    uta.export_records()
    for query in (
        "What happened on May 7, 2023?",
        "in June",
        "09.05.2023",
        "since 2023",
    ):
        uta.search_conversation(query, 2, explain=True)
    return talk


@conversation
def times_in_words(path: Path) -> Talk:
    talk = Talk(
        path, "Requests for a time, in many words, against one full day and a series."
    )
    talk.open(time_zone="Europe/Lisbon")
    rui = talk.user("rui")
    rui.add(
        [said("Fair on May 14, gym monthly and on weekdays.", "r1")], session_id="s"
    )
    plans = [
        ("Fair.", {"start": "2025-05-14", "granularity": "day"}),
        (
            "Gym.",
            {
                "start": "2025-05-05T18:00",
                "recurrence": "FREQ=WEEKLY;BYDAY=MO,WE;COUNT=9",
            },
        ),
        (
            "Rent.",
            {"start": "2025-05-01T09:00", "recurrence": "FREQ=MONTHLY;UNTIL=20250901"},
        ),
        ("Dance.", {"start": "2025-05-16T22:00", "end": "2025-05-17T02:00"}),
        ("Odd.", {"start": "2025-05-16T22:00", "recurrence": "FREQ=HOURLY"}),
        ("Odd end.", {"start": "2025-05-16T22:00", "end": "2025-05-15T02:00"}),
        ("Never.", {"start": "someday"}),
        ("Later.", {"postponed": True}),
    ]
    rows = [
        {
            "text": text,
            "facet": "schedule",
            "event_time": when,
            "source_message_ids": ["r1"],
        }
        for text, when in plans
    ]
    rui.add_records(rows)
    for query in (
        "Meet on May 14 at noon?",
        "Meet on 14 May from 3 to 5 pm?",
        "Lunch Wednesday 18:15 for half an hour?",
        "Call 2025-05-16T23:00Z?",
        "Call 2025-05-16T23:00 until 2025-05-17T01:00?",
        "Can I sleep on Saturday at 1 a.m.?",
        "Can we talk on June 1st at 9:30?",
        "Can we talk on June 31 at 9:30?",
        "Meet today at 9?",
        "Meet on Monday at 18:00 New York time?",
        "Move it to Monday at 18:00.",
        "Meet the day after tomorrow at 6 pm?",
    ):
        rui.recall(query, at="2025-05-12T10:00")
    rui.export_records()
    return talk


@conversation
def arguments_of_all_types(path: Path) -> Talk:
    texts = {
        "t1": "The party is on 7 May 2025 at 19:30.",
        "t2": "The deposit is $1,200 or 12.5 %.",
        "t3": "Yes, with music: jazz and tango.",
        "t4": "Invite Ada Lind (ada@example.org).",
    }

    def fill(prompt: str) -> dict[str, Any]:
        one, two, three, four = (alias(prompt, "f", text) for text in texts.values())
        arguments = {
            "day": "2025-05-07",
            "time": "19:30",
            "deposit": 1200,
            "share": 12.5,
            "music": True,
            "styles": ["jazz", "polka", "tango"],
            "guest": {"name": "Ada Lind"},
            "code": "ADA",
            "hours": 4.5,
            "rooms": ["hall", "bar"],
            "extra": {"deep": {"er": 1}},
            "paid": "1200",
        }
        sources = [
            ("day", one, "on 7 May 2025"),
            ("time", one, "19:30"),
            ("deposit", two, "$1,200"),
            ("share", two, "12.5 %"),
            ("music", three, "Yes"),
            ("styles", three, "jazz and tango"),
            ("guest.name", four, "Ada Lind"),
            ("code", four, "Ada"),
            ("hours", one, "at 19:30"),
            ("rooms", one, "The party"),
            ("extra", two, "12.5 %"),
            ("paid", two, "$1,200"),
        ]
        names = ("path", "fact", "quote")
        cited = [dict(zip(names, source, strict=True)) for source in sources]
        return {"arguments": arguments, "sources": cited}

    text = {"type": "string"}
    properties = {
        "day": {"type": "string", "format": "date"},
        "time": text,
        "deposit": {"type": "number", "multipleOf": 0.01},
        "share": {"type": "number", "description": "percent of the price"},
        "music": {"type": "boolean"},
        "styles": {
            "type": "array",
            "items": {"type": "string", "enum": ["jazz", "tango"]},
        },
        "guest": {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"name": text, "email": text},
                    "required": ["name", "email"],
                },
                {"type": "null"},
            ]
        },
        "code": {"type": "string", "pattern": "^[A-Z]+$", "default": "ABC"},
        "wrong": {"type": "integer", "default": "one"},
        "hours": {"type": "integer"},
        "rooms": {"type": "array", "items": text},
        "extra": {"type": "object"},
        "paid": {"type": ["integer", "null"]},
    }
    tool = {"title": "party", "type": "object", "properties": properties}
    tool |= {
        "required": ["day", "hours", "wrong"],
        "dependentRequired": {"day": ["place"]},
    }
    talk = Talk(
        path,
        "Arguments of every JSON type, copied and derived, that fit their schema or do not.",
        ToolFill=fill,
    ).open()
    uli = talk.user("uli")
    uli.add(
        [said(text, key, "2025-04-01") for key, text in texts.items()], session_id="s"
    )
    for policy in ("flag", "ask"):
        uli.ground(tool, "Plan the party.", policy=policy, at="2025-04-02T10:00")
    return talk


@conversation
def asynchronous_twins(path: Path) -> Talk:
    talk = Talk(
        path,
        "The same through coroutines: memory, graphs and background reading.",
        Extraction=[
            extraction(memory("The user's brother is Bruno.", attribute="brother")),
            extraction(memory("The user whistles.", attribute="hobby")),
        ],
        GoalPlan=PLAN,
        Unification=prove,
        ToolFill=good,
        GroundedAnswer={"known": True, "answer": "A kettle.", "facts": ["f1"]},
    ).open(extraction__debounce_seconds=0.0)
    assert talk.memory is not None
    ana = talk.memory.user("ana")
    messages = [
        said(t, k, f"2025-03-0{n}T10:00") for n, (k, t) in enumerate(FAMILY.items(), 1)
    ]
    config: Any = {"configurable": {"user_id": "ana", "thread_id": "t"}}
    turn = {"messages": [("user", ASKED)]}
    write = create_write_graph(talk.memory, force=False)
    recall = create_recall_graph(talk.memory, mode="reason", answer=True)
    ground = create_grounding_graph(talk.memory)

    def run(what: str, work: Any) -> Any:
        return talk.run(what, lambda: asyncio.run(work()))

    run("aadd", lambda: ana.aadd(messages, session_id="s"))
    run("aflush", ana.aflush)
    run("asearch_conversation", lambda: ana.asearch_conversation("kettle", 2))
    run("asearch_records", lambda: ana.asearch_records("brother", 2))
    run("arecall", lambda: ana.arecall(ASKED, at="2025-04-01"))
    run("arecall", lambda: ana.arecall(ASKED, mode="reason", at="2025-04-01"))
    run("aground", lambda: ana.aground(FERRY, FERRY_ASKED, at="2025-04-01"))
    run("recall graph", lambda: recall.ainvoke(turn, config))
    run("write graph", lambda: write.ainvoke({"messages": [said("Hm.", "h1")]}, config))
    request: Any = {"request": FERRY_ASKED, "tools": [FERRY]}
    run("grounding graph", lambda: ground.ainvoke(request, config))
    whistle = [
        said("I whistle.", "w9", "2025-03-20"),
        said("Fine.", "w10", role="assistant"),
    ]
    run("aadd", lambda: ana.aadd(whistle, session_id="later"))
    ana.flush_soon()
    run("adrain", lambda: ana.adrain(30))
    run("aexport_records", lambda: ana.aexport_records(history=True))
    run("aremember", lambda: ana.aremember("The user hums."))
    run("afiles", ana.afiles)
    run("aforget", lambda: ana.aforget(message="w1"))
    return talk
