"""Records by hand, forgetting, export and import, the index."""

from pathlib import Path

from tests.golden.support import Talk, change, conversation, extraction, memory, said


@conversation
def records_from_elsewhere(path: Path) -> Talk:
    talk = Talk(
        path, "Records made elsewhere: stored, known, refused; what was true when."
    ).open()
    ivy = talk.user("ivy")
    ivy.add(
        [
            said("My car is a Fiat.", "i1", "2024-01-01"),
            said("My new car is a Saab.", "i2", "2025-01-01"),
            said("Yoga on Mondays.", "i3", "2025-01-02"),
        ],
        session_id="s",
    )
    fiat = {"text": "The user's car is a Fiat.", "subject": "user", "attribute": "car"}
    yoga = {"start": "2025-01-06T18:00", "recurrence": "FREQ=WEEKLY;BYDAY=MO"}
    report = ivy.add_records(
        [
            {**fiat, "record_id": "fiat", "source_message_ids": ["i1"]},
            {
                "text": "The user's car is a fiat",
                "subject": "user",
                "source_message_ids": ["i2"],
            },
            {
                "text": "The user's car is a Saab.",
                "subject": "user",
                "attribute": "car",
                "supersedes": ["fiat"],
                "source_message_ids": ["i2"],
            },
            {"text": "It is red.", "source_message_ids": ["i2"], "refines": ["fiat"]},
            {
                "text": "Yoga.",
                "facet": "schedule",
                "event_time": yoga,
                "message_ids": ["i3"],
            },
            {
                "text": "Some time.",
                "facet": "schedule",
                "event_time": {},
                "message_ids": ["i3"],
            },
            {"text": "No source."},
            {"text": "Unknown source.", "source_message_ids": ["i9"]},
            {"text": " ", "source_message_ids": ["i1"]},
            {"text": "Odd field.", "colour": 1, "source_message_ids": ["i1"]},
            {"text": "Odd kind.", "kind": "rumour", "source_message_ids": ["i1"]},
            {"text": "Odd id.", "record_id": "a b", "source_message_ids": ["i1"]},
            {
                "text": "Odd target.",
                "supersedes": ["ghost"],
                "source_message_ids": ["i1"],
            },
            {"text": "Over.", "valid_to": "2024-02-01", "source_message_ids": ["i1"]},
            {"text": "Odd time.", "said_at": "once", "source_message_ids": ["i1"]},
            "a text",
        ]
    )
    assert report is not None
    ivy.add_records("text")
    ivy.search_records("car", 4, explain=True)
    ivy.search_records("car", 4, as_of="2024-06-01")
    ivy.get_records(["fiat", "ghost", *report.stored])
    ivy.export_records(as_of="2024-06-01")
    whole = ivy.export_records(history=True)
    messages = ivy.export()
    ivy.history("fiat")
    ivy.recall("What car do I have?", at="2025-02-03T08:00")
    ivy.recall("Can we meet on Monday at 18:15?", at="2025-02-01T08:00")
    copy = talk.user("copy of ivy")
    copy.add(messages, session_id="s")
    copy.add_records(whole)
    copy.export_records(history=True)
    ivy.undo(report.stored[1])
    ivy.export_records()
    return talk


@conversation
def remembered_and_forgotten(path: Path) -> Talk:
    talk = Talk(
        path,
        "By hand in, by hand out; what was superseded is true again; messages are read again.",
        Extraction=[
            extraction(
                memory("The user's locker is 12.", "m1", attribute="locker"),
                memory(
                    "The user's bench is 3 and locker 12.",
                    "m1",
                    "m2",
                    attribute="bench",
                ),
            ),
            extraction(
                memory("The user's locker is now 15.", attribute="locker"),
                changes=[change("replaces", "locker is 12", "it is now 15", "now 15")],
            ),
            extraction(memory("The user's bench is 3.", "m1", attribute="bench")),
        ],
    ).open()
    ned = talk.user("ned")
    ned.add(
        [said("My locker is 12.", "n1"), said("My bench is 3.", "n2")], session_id="s"
    )
    ned.flush()
    ned.add(
        [said("My locker has changed, it is now 15.", "n3", "2025-04-01")],
        session_id="t",
    )
    ned.flush()
    ned.export_records(history=True)
    ned.forget(record=ned.search_records("locker is now 15", 1)[0].record_id)
    ned.export_records(history=True)
    ned.forget(message="n1")
    ned.flush()
    ned.export_records(history=True)
    kept = ned.remember("The user wants no mail on Sundays.")
    ned.remember("The user wants no mail on Sundays.")
    ned.history(kept.record_id)
    ned.recall("mail on Sundays")
    ned.undo(kept.record_id)
    ned.search_records("mail on Sundays")
    ned.forget(session="s")
    ned.forget(record="r-ghost")
    ned.forget(record="x", message="y")
    ned.forget(message="n1")
    ned.export()
    talk.user("nobody").forget(message="n1")
    ned.doctor()
    return talk


@conversation
def changes_upon_changes(path: Path) -> Talk:
    talk = Talk(
        path,
        "Undoing in the right order; an earlier change waits for the later one.",
        Extraction=[
            extraction(memory("The user's desk is in room 101.", attribute="desk")),
            *(
                extraction(
                    memory(f"The user's desk is in room {n}.", attribute="desk"),
                    changes=[
                        change(
                            "replaces", f"room {n - 1}", f"now in room {n}", f"room {n}"
                        )
                    ],
                )
                for n in (102, 103)
            ),
        ],
    ).open()
    mia = talk.user("mia")
    for n in (1, 2, 3):
        text = f"My desk has changed, it is now in room 10{n}."
        mia.add([said(text, f"m{n}", f"2025-0{n}-01T10:00")], session_id=f"{n}")
        mia.flush()
    rows = mia.export_records(history=True)
    for day in ("2025-01-15", "2025-02-15", "2025-03-15"):
        mia.search_records("desk room", as_of=day)
    ids = [row["record_id"] for row in rows]
    for own in (*ids, *reversed(ids)):
        mia.undo(own)
    mia.export_records(history=True)
    mia.history(ids[0])
    return talk


@conversation
def index_and_repair(path: Path) -> Talk:
    talk = Talk(
        path,
        "Vectors in the index: searched, doctored, rebuilt, opened again, left.",
        Extraction=[
            extraction(memory("The user's boat is called Elfe.", attribute="boat"))
        ],
    ).open(storage__index_batch=1)
    ole = talk.user("ole")
    texts = ["My boat is called Elfe.", "It lies in Kiel.", "I sail in June."]
    messages = [
        said(text, f"o{n}", f"2025-03-0{n}T10:00") for n, text in enumerate(texts, 1)
    ]
    ole.add(messages, session_id="s")
    ole.flush()
    ole.search_conversation("boat called", 2)
    ole.search_records("boat", 2)
    ole.doctor()
    ole.rebuild()
    ole.forget(message="o2")
    ole.rebuild(reembed=True)
    talk.open(storage__index_batch=1)
    ole = talk.user("ole")
    ole.recall("Where does the boat lie?", at="2025-04-01")
    ole.doctor(sample=0)
    return talk
