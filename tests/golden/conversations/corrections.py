"""What is said later changes what is known, or does not."""

from pathlib import Path

from tests.golden.support import Talk, conversation, decisions, extraction, memory, said

MOVED = {"attribute": "home", "facet": "persona"}


@conversation
def moved_house(path: Path) -> Talk:
    talk = Talk(
        path,
        "A move: the new home takes the old one's place; undone; as it was then.",
        Extraction=[
            extraction(memory("The user lives in Lugo.", **MOVED, entities=["Lugo"])),
            extraction(memory("The user lives in Vigo now.", "m1", **MOVED, entities=["Vigo"])),
        ],
        Reconciliation=decisions(("update", "lives in Vigo", "lives in Lugo", {"attribute": "a1"})),
    ).open()
    ana = talk.user("ana")
    ana.add([said("I live in Lugo.", "h1", "2024-02-03T09:00")], session_id="old")
    ana.flush()
    ana.add([said("I moved, I live in Vigo now.", "h2", "2025-04-05T18:30")], session_id="new")
    ana.flush()
    ana.search_records("Where does the user live?", explain=True)
    ana.search_records("Where does the user live?", as_of="2024-12-01")
    ana.search_records("Where does the user live?", as_of="2023-01-01")
    ana.export_records(history=True)
    ana.export_records(as_of="2024-12-01")
    ana.recall("Where do I live?", at="2025-05-01T10:00")
    newest = ana.search_records("lives in Vigo")[0].record_id
    ana.history(newest)
    ana.undo(newest)
    ana.search_records("lives in")
    ana.undo(newest)
    ana.undo("r-nothing")
    ana.history("r-nothing")
    return talk


@conversation
def refused_changes(path: Path) -> Talk:
    talk = Talk(
        path,
        "A question, a wish, somebody else, the past: no reason to forget what is known.",
        Extraction=[
            extraction(
                memory("The user lives in Ghent.", attribute="home"),
                memory("The user works at Delta as a welder.", attribute="employer"),
                memory("Pia is 28.", subject="Pia", attribute="age"),
            ),
            extraction(
                memory("The user lives in Bruges.", "m1", attribute="home"),
                memory("The user works at Omega.", "m2", attribute="employer"),
                memory("Jan is 31.", "m3", subject="Pia", attribute="age"),
                memory("The user lived in Mons.", "m4", attribute="home"),
                memory("The user always wants short answers.", "m5", kind="instruction"),
            ),
        ],
        Reconciliation=decisions(
            ("update", "Bruges", "Ghent", {"attribute": "home"}),
            ("update", "Omega", "Delta"),
            ("update", "Jan is", "Pia is"),
            ("update", "Mons", "Ghent"),
            ("update", "short answers", "Ghent", {"attribute": "home"}),
        ),
    ).open(extraction__neighbour_floor=0.0)
    ben = talk.user("ben")
    text = "I live in Ghent. I work at Delta as a welder. My friend Pia is 28."
    ben.add([said(text, "b1", "2024-01-01T08:00")], session_id="1")
    ben.flush()
    later = [
        said("Should I move to Bruges?", "b2", "2024-06-01T08:00"),
        said("I wish I worked at Omega.", "b3", "2024-06-01T08:01"),
        said("Jan is 31.", "b4", "2024-06-01T08:02"),
        said("I lived in Mons as a child.", "b5", "2024-06-01T08:03"),
        said("Always answer briefly.", "b6", "2024-06-01T08:04"),
    ]
    ben.add(later, session_id="2")
    ben.flush()
    ben.export_records(history=True)
    ben.recall("Where do I live and work?", at="2024-07-01")
    return talk


@conversation
def merged_and_skipped(path: Path) -> Talk:
    talk = Talk(
        path,
        "Joining two sentences, skipping a known one: done where safe, refused elsewhere.",
        Extraction=[
            extraction(
                memory("The user has a cat.", attribute="pet"),
                memory("The user pays 40 euros for the gym.", attribute="gym"),
                memory("The user drinks tea.", attribute="drink"),
            ),
            extraction(
                memory("The user has a parrot.", "m1", attribute="pet"),
                memory("The user pays 45 euros for the gym.", "m2", attribute="gym"),
                memory("The user drinks tea!", "m3", attribute="drink"),
                memory("The user pays 40 euros for the gym now.", "m4", attribute="gym"),
                memory("The user has a tortoise.", "m5", attribute="pet"),
            ),
        ],
        Reconciliation=decisions(
            ("merge", "a parrot", "a cat", {"text": "The user has a cat and a parrot."}),
            ("skip", "45 euros", "40 euros"),
            ("skip", "40 euros", "40 euros"),
            ("merge", "tortoise", "a cat", {"text": "The user has a cat and a horse."}),
        ),
    ).open(extraction__neighbour_floor=0.1, extraction__same_floor=0.5)
    eva = talk.user("eva")
    text = "I have a cat, pay 40 euros for the gym and drink tea."
    eva.add([said(text, "e1")], session_id="1")
    eva.flush()
    later = [
        said("I have a parrot.", "e2", "2025-03-02"),
        said("I pay 45 euros for the gym.", "e3", "2025-03-02T01:00"),
        said("I drink tea!", "e4", "2025-03-02T02:00"),
        said("It's 40 euros for the gym now.", "e5", "2025-03-02T03:00"),
        said("I have a tortoise.", "e6", "2025-03-02T04:00"),
    ]
    eva.add(later, session_id="2")
    eva.flush()
    eva.export_records(history=True)
    eva.get_records([hit.record_id for hit in eva.search_records("cat parrot tea", 3)])
    return talk


@conversation
def chain_in_one_batch(path: Path) -> Talk:
    talk = Talk(
        path,
        "Two new values of one thing in one batch: each follows the one before.",
        Extraction=[
            extraction(memory("The user's phone number is 555 0100.", attribute="phone number")),
            extraction(
                memory("The user's phone number is 555 0177.", "m1", attribute="phone number"),
                memory("The user's phone number is 555 0199.", "m2", attribute="phone number"),
            ),
        ],
        Reconciliation=decisions(("update", "0177", "0100"), ("update", "0199", "0100")),
    ).open()
    kim = talk.user("kim")
    kim.add([said("My phone number is 555 0100.", "k1", "2025-01-01T10:00")], session_id="a")
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
                memory("The user cites nobody."),
            ),
            extraction(
                memory("The user's sister Odile is 44 years old.", "m1", attribute="sister's age"),
                memory("loop loop loop " * 20, "m1"),
                memory("The user met Odile on 2025-03-09 at 18:45.", "m1", kind="event"),
            ),
            extraction(memory("The user's sister is Odile Roy.", attribute="sister")),
        ],
        Reconciliation=[
            {
                "decisions": [
                    {"record": "r9", "action": "update", "targets": ["n1"]},
                    {"record": "r1", "action": "update", "targets": ["n9"], "attribute": "a9"},
                    {"record": "r1", "action": "skip", "targets": [], "attribute": "a1"},
                ]
            },
            {"decisions": [{"record": "r1", "action": "drop"}]},
            "no decision",
        ],
    ).open(extraction__neighbour_floor=0.0)
    lou = talk.user("lou")
    lou.add([said("My sister is Odile.", "l1")], session_id="1")
    lou.flush()
    lou.add([said("Odile visited me last weekend.", "l2", "2025-03-10")], session_id="2")
    lou.flush()
    lou.add([said("My sister is Odile Roy.", "l3", "2025-03-11")], session_id="3")
    lou.flush()
    lou.export_records()
    lou.recall("How old is Odile?", at="2025-04-01")
    return talk


@conversation
def several_people(path: Path) -> Talk:
    talk = Talk(
        path,
        "Named speakers in one room; who says what of whom.",
        Extraction=[
            extraction(
                memory("Rosa plays the cello.", "m1", subject="Rosa", attribute="instrument"),
                memory("Emil plays chess.", "m2", subject="Emil", attribute="hobby"),
            ),
            extraction(memory("Rosa plays the viola now.", subject="Rosa", attribute="instrument")),
        ],
        Reconciliation=decisions(("update", "viola", "cello")),
    ).open(extraction__neighbour_floor=0.05)
    room = talk.user("choir")
    room.add(
        [
            said("I play the cello.", "p1", name="Rosa"),
            said("And I play chess.", "p2", name="Emil"),
            said("Nice!", "p3", role="assistant"),
        ],
        session_id="room",
    )
    room.flush()
    late = said("I stopped the cello, I play the viola now.", "p4", "2025-05-01", name="Rosa")
    room.add([late], session_id="room")
    room.flush()
    room.export_records(history=True)
    room.recall("What does Rosa play?", at="2025-06-01")
    room.search_conversation("play", by="message", explain=True)
    room.export()
    return talk
