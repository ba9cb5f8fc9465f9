"""What is said later changes what is known, or does not."""

from pathlib import Path

from tests.golden.support import Talk, change, conversation, extraction, memory, said

MOVED = {"attribute": "home", "facet": "persona"}


@conversation
def moved_house(path: Path) -> Talk:
    talk = Talk(
        path,
        "A move: the new home takes the old one's place; undone; as it was then.",
        Extraction=[
            extraction(memory("The user lives in Lugo.", **MOVED)),
            extraction(
                memory("The user lives in Vigo now.", "m1", **MOVED),
                changes=[
                    change(
                        "replaces",
                        "in Lugo",
                        "moved at Easter",
                        "Vigo",
                        since="2025-04-20",
                    )
                ],
            ),
        ],
    ).open()
    ana = talk.user("ana")
    ana.add([said("I live in Lugo.", "h1", "2024-02-03T09:00")], session_id="old")
    ana.flush()
    text = "I moved at Easter, I live in Vigo now."
    ana.add([said(text, "h2", "2025-05-05T18:30")], session_id="new")
    ana.flush()
    ana.search_records("Where does the user live?", explain=True)
    ana.search_records("Where does the user live?", as_of="2025-04-25")
    ana.search_records("Where does the user live?", as_of="2024-12-01")
    ana.search_records("Where does the user live?", as_of="2023-01-01")
    rows = ana.export_records(history=True)
    ana.export_records(as_of="2024-12-01")
    ana.recall("Where do I live?", at="2025-06-01T10:00")
    old, newest = (row["record_id"] for row in rows)
    ana.history(newest)
    ana.changes(old)
    ana.undo(newest)
    ana.search_records("lives in")
    ana.changes(old)
    ana.undo(newest)
    ana.undo("r-nothing")
    ana.history("r-nothing")
    return talk


@conversation
def refused_changes(path: Path) -> Talk:
    talk = Talk(
        path,
        "Quotes that nobody said, one word, words of others, a draft: what is known stays.",
        Extraction=[
            extraction(
                memory("The user lives in Ghent.", attribute="home"),
                memory("The user works at Delta as a welder.", attribute="employer"),
                memory("Pia is 28.", subject="Pia", attribute="age"),
                memory(
                    "Answers shall be short.", kind="instruction", attribute="answers"
                ),
            ),
            extraction(
                memory("The user lives in Bruges.", "m1", attribute="home"),
                memory("The user works at Omega.", "m1", "m2", attribute="employer"),
                memory("Pia is 31.", "m3", subject="Pia", attribute="age"),
                memory(
                    "The user may leave Delta.", "m4", attribute="employer", draft=True
                ),
                memory("Answers shall be long.", "m3", attribute="answers"),
                changes=[
                    change(
                        "replaces",
                        "Ghent",
                        "I live in Bruges",
                        "Bruges",
                        message="Bruges?",
                    ),
                    change("replaces", "at Delta", "You work at Omega", "Omega"),
                    change("corrects", "Pia is 28", "31", "Pia is 31"),
                    change("replaces", "at Delta", "thinking of leaving", "may leave"),
                    change(
                        "ended",
                        "short",
                        "long answers, please",
                        message="You work at Omega",
                    ),
                    change("ended", "no such record", "thinking of leaving"),
                    change("ended", "Ghent", "somewhere", message="in no message"),
                ],
            ),
        ],
    ).open()
    ben = talk.user("ben")
    text = "I live in Ghent, work at Delta as a welder. My friend Pia is 28. Keep answers short."
    ben.add([said(text, "b1", "2024-01-01T08:00")], session_id="1")
    ben.flush()
    later = [
        said("Should I move to Bruges?", "b2", "2024-06-01T08:00"),
        said(
            "You work at Omega, do you not?", "b3", "2024-06-01T08:01", role="assistant"
        ),
        said("Jan is 31.", "b4", "2024-06-01T08:02"),
        said("I am thinking of leaving Delta.", "b5", "2024-06-01T08:03"),
    ]
    ben.add(later, session_id="2")
    ben.flush()
    rows = ben.export_records(history=True)
    for row in rows[:2]:
        ben.changes(row["record_id"])
    ben.calls()
    ben.recall("Where do I live and work?", at="2024-07-01")
    return talk


@conversation
def confirmed_and_detailed(path: Path) -> Talk:
    talk = Talk(
        path,
        "The same again supports a record, details are linked to it, equal words are one record.",
        Extraction=[
            extraction(
                memory("The user has a garden.", attribute="garden"),
                memory("The user pays 40 euros for the gym.", attribute="gym"),
                memory("The user drinks tea.", attribute="drink"),
            ),
            extraction(
                memory(
                    "There is an apple tree in the user's garden.",
                    "m1",
                    attribute="garden",
                ),
                memory("The gym costs the user 40 euros.", "m2", attribute="gym"),
                memory("The user drinks tea", "m3", attribute="drink"),
                changes=[
                    change("details", "a garden", "an apple tree in it", "apple tree"),
                    change("confirms", "the gym", "still 40 euros", "The gym costs"),
                ],
            ),
            extraction(changes=[change("confirms", "a garden", "I never said that")]),
        ],
    ).open()
    eva = talk.user("eva")
    text = "I have a garden, pay 40 euros for the gym and drink tea."
    eva.add([said(text, "e1")], session_id="1")
    eva.flush()
    later = [
        said("My garden has an apple tree in it.", "e2", "2025-03-02"),
        said("The gym is still 40 euros.", "e3", "2025-03-02T01:00"),
        said("I drink tea!", "e4", "2025-03-02T02:00"),
    ]
    eva.add(later, session_id="2")
    eva.flush()
    eva.add([said("What shall I plant?", "e5", "2025-03-03")], session_id="3")
    eva.flush()
    rows = eva.export_records(history=True)
    for row in rows:
        eva.changes(row["record_id"])
    eva.forget(message="e3")
    eva.recall("What does the gym cost?", at="2025-04-01")
    eva.get_records([row["record_id"] for row in rows])
    return talk


@conversation
def chain_in_one_batch(path: Path) -> Talk:
    talk = Talk(
        path,
        "Two new values of one thing in one batch: the one said last takes its place.",
        Extraction=[
            extraction(
                memory("The user's phone number is 555 0100.", attribute="phone number")
            ),
            extraction(
                memory(
                    "The user's phone number is 555 0177.",
                    "m1",
                    attribute="phone number",
                ),
                memory(
                    "The user's phone number is 555 0199.",
                    "m2",
                    attribute="phone number",
                ),
                changes=[
                    change("replaces", "0100", "number is 555 0199", "0199"),
                    change("replaces", "0100", "now 555 0177", "0177"),
                ],
            ),
        ],
    ).open()
    kim = talk.user("kim")
    kim.add(
        [said("My phone number is 555 0100.", "k1", "2025-01-01T10:00")], session_id="a"
    )
    kim.flush()
    kim.add(
        [
            said("My phone number is now 555 0177.", "k2", "2025-02-01T10:00"),
            said("Sorry, my new phone number is 555 0199.", "k3", "2025-02-01T10:05"),
        ],
        session_id="b",
    )
    kim.flush()
    kim.export_records(history=True)
    kim.search_records("phone number", as_of="2025-01-15")
    for hit in kim.search_records("phone number 555"):
        kim.history(hit.record_id)
        kim.undo(hit.record_id)
    return talk


@conversation
def unknown_names(path: Path) -> Talk:
    talk = Talk(
        path,
        "Aliases that were not shown and values that nobody said are not taken.",
        Extraction=[
            extraction(
                memory("The user's sister is Odile.", "m1", "m7", attribute="sister"),
                memory("The user owns a boat.", "m9"),
                memory("The user cites nobody.", ""),
            ),
            extraction(
                memory(
                    "The user's sister Odile is 44 years old.",
                    "[M1]",
                    attribute="her age",
                ),
                memory("loop loop loop " * 20, "m1"),
                memory(
                    "The user met Odile on 2025-03-09 at 18:45.", "m1", kind="event"
                ),
            ),
            {
                "memories": [
                    memory("The user's sister is Odile Roy.", attribute="sister")
                ],
                "changes": [
                    {
                        "record": "[n1]",
                        "relation": "Replaces",
                        "message": "M1",
                        "quote": "Odile",
                    },
                    {
                        "record": "n1",
                        "relation": "drops",
                        "message": "m1",
                        "quote": "My sister",
                    },
                    {
                        "record": "r1",
                        "relation": "ended",
                        "message": "m1",
                        "quote": "My sister",
                    },
                    {
                        "record": "n1",
                        "relation": "ended",
                        "message": "b1",
                        "quote": "My sister",
                    },
                ],
            },
        ],
    ).open()
    lou = talk.user("lou")
    lou.add([said("My sister is Odile.", "l1")], session_id="1")
    lou.flush()
    lou.add(
        [said("Odile visited me last weekend.", "l2", "2025-03-10")], session_id="2"
    )
    lou.flush()
    lou.add([said("My sister is Odile Roy.", "l3", "2025-03-11")], session_id="3")
    lou.flush()
    lou.export_records(history=True)
    lou.recall("How old is Odile?", at="2025-04-01")
    return talk


@conversation
def several_people(path: Path) -> Talk:
    talk = Talk(
        path,
        "Two named people: each changes what is known of himself, not of the other.",
        Extraction=[
            extraction(
                memory(
                    "Rosa plays the cello.",
                    "m1",
                    subject="Rosa",
                    attribute="instrument",
                ),
                memory("Emil plays chess.", "m2", subject="Emil", attribute="hobby"),
            ),
            extraction(
                memory(
                    "Rosa plays the viola now.", subject="Rosa", attribute="instrument"
                ),
                memory("Emil gave up chess.", "m2", subject="Emil", attribute="hobby"),
                memory(
                    "Rosa has no instrument.",
                    "m2",
                    subject="Rosa",
                    attribute="instrument",
                ),
                changes=[
                    change("replaces", "cello", "I play the viola now", "viola"),
                    change("ended", "plays chess", "I gave up chess"),
                ],
            ),
            extraction(changes=[change("ended", "viola", "Rosa sold her viola")]),
        ],
    ).open()
    room = talk.user("choir")
    emil = {"role": "assistant", "name": "Emil"}
    room.add(
        [
            said("I play the cello.", "p1", name="Rosa"),
            said("And I play chess.", "p2", **emil),
        ],
        session_id="room",
    )
    room.flush()
    late = [
        said(
            "I stopped the cello, I play the viola now.",
            "p3",
            "2025-05-01",
            name="Rosa",
        ),
        said("And I gave up chess.", "p4", "2025-05-01T00:01", **emil),
    ]
    room.add(late, session_id="room")
    room.flush()
    room.add(
        [said("Rosa sold her viola.", "p5", "2025-05-02", **emil)], session_id="room"
    )
    room.flush()
    room.export_records(history=True)
    room.recall("What does Rosa play?", at="2025-06-01")
    room.search_conversation("play", by="message", explain=True)
    room.export()
    return talk
