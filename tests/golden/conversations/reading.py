"""What is taken in, and how the model reads it."""

from pathlib import Path
from typing import Any

from tests.golden.support import (
    Talk,
    alias,
    change,
    conversation,
    extraction,
    memory,
    said,
)

BAD = {"memories": 7, "changes": "none"}
AGREED = {"agreed_message": "let us", "agreed_quote": "Yes, let us do that"}


@conversation
def unusable_extraction(path: Path) -> Talk:
    talk = Talk(
        path,
        "Answers outside the schema: repaired once, due again, given up after three attempts.",
        Extraction=[
            BAD,
            extraction(memory("The user knits.", attribute="hobby")),
            *("no JSON at all", BAD) * 3,
        ],
    ).open()
    ida = talk.user("ida")
    ida.add([said("I knit.", "i1")], session_id="1")
    ida.flush()
    ida.add([said("I also sew.", "i2", "2025-03-02")], session_id="2")
    for _ in range(4):
        ida.flush()
    ida.recall("What do I do?", at="2025-04-01")
    return talk


@conversation
def unreachable_model(path: Path) -> Talk:
    talk = Talk(
        path,
        "A server that does not answer; what is due stays due, and is read later.",
        Extraction=[
            ConnectionError("no route"),
            ConnectionError("no route"),
            extraction(memory("The user rows.", attribute="sport")),
        ],
    ).open()
    tom = talk.user("tom")
    tom.add([said("I row.", "t1")], session_id="1")
    tom.flush()
    tom.flush()
    tom.export_records()
    return talk


@conversation
def spent_budget(path: Path) -> Talk:
    talk = Talk(
        path,
        "One call for a flush: what needs more is left.",
        Extraction=[extraction(memory("The user bakes.", attribute="hobby"))] * 2,
    ).open(extraction__max_calls=1)
    amy = talk.user("amy")
    amy.add([said("I bake.", "a1")], session_id="1")
    amy.flush()
    amy.files()
    return talk


@conversation
def proposals_and_agreement(path: Path) -> Talk:
    talk = Talk(
        path,
        "The assistant proposes, the user agrees in the next batch.",
        Extraction=[
            extraction(
                memory(
                    "A trip to Ulm is proposed.", "m2", draft=True, attribute="trip"
                ),
                memory("The user lives in Bern.", "m1", attribute="home"),
            ),
            extraction(
                memory("The train to Ulm leaves at 7.", "b2", "m1", attribute="train"),
                memory("Only the proposal is cited.", "b2"),
                changes=[
                    change("adopts", "trip to Ulm", "How about Ulm", **AGREED),
                    change("replaces", "lives in Bern", "How about Ulm"),
                ],
            ),
        ],
    ).open()
    max_ = talk.user("max")
    max_.add(
        [
            said("I live in Bern, where shall I go?", "x1"),
            said("How about Ulm?", "x2", "2025-03-01T10:01", role="assistant"),
        ],
        session_id="s",
    )
    max_.flush()
    max_.add([said("Yes, let us do that.", "x3", "2025-03-01T10:02")], session_id="s")
    max_.flush()
    max_.export_records(history=True)
    max_.recall("Where do I go?", at="2025-03-03")
    return talk


@conversation
def tool_calls_in_a_conversation(path: Path) -> Talk:
    talk = Talk(
        path,
        "Bare tool calls, a tool's answer, content in blocks.",
        Extraction=[
            extraction(memory("It is 12 degrees in Turin.", "m3", subject="Turin"))
        ],
    ).open()
    gia = talk.user("gia")
    call = {"name": "weather", "args": {"city": "Turin"}, "id": "call-1"}
    gia.add(
        [
            said("How is the weather in Turin?", "g1"),
            said("", "g2", "2025-03-01T10:01", role="assistant", tool_calls=[call]),
            said(
                "12 degrees",
                "g3",
                "2025-03-01T10:02",
                role="tool",
                tool_call_id="call-1",
            ),
            {
                "role": "assistant",
                "id": "g4",
                "at": "2025-03-01T10:03",
                "content": [
                    {"type": "text", "text": "It is 12 degrees."},
                    {"type": "image"},
                ],
            },
        ],
        session_id="s",
    )
    gia.flush()
    gia.recall("weather in Turin", at="2025-03-02")
    gia.export()
    return talk


@conversation
def odd_input(path: Path) -> Talk:
    talk = Talk(path, "What cannot be stored is named; the rest is stored.").open(
        storage__max_message_chars=200
    )
    odd = talk.user(7)
    odd.add(
        [
            said("Good.", "o1"),
            {"role": "wizard", "content": "What?"},
            {"content": "no role"},
            {"role": "user", "content": "   "},
            {"role": "user", "content": 5},
            {"role": "user", "content": "half \ud800 of a sign", "id": "o5"},
            {"role": "user", "content": "x" * 201, "id": "o6"},
            said("time?", "o7", "yesterday"),
            ("human", "A pair."),
            "a bare text",
            {"role": "user", "content": "named by its hash", "at": "2025-03-01"},
            {"role": "user", "content": "named by its hash", "at": "2025-03-01"},
            {"role": "user", "content": "calls", "id": True, "tool_calls": "none"},
        ],
        session_id="s",
        at="2025-03-01T12:00",
    )
    odd.add([said("Good.", "o1"), said("Better.", "o1")], session_id="s")
    odd.add("text", session_id="s")
    odd.add([], session_id="s")
    odd.add([said("no session", "o9")], session_id="")
    odd.search_conversation("")
    odd.search_conversation("good", 0)
    odd.search_conversation("good", by="page")
    odd.recall("good", max_tokens=-1)
    odd.recall("good", mode="hard")
    odd.recall("good", at="never")
    odd.search_records("good", as_of="never")
    odd.read_file("nothing.md")
    odd.forget()
    odd.remember(" ")
    odd.export()
    talk.run("user('')", lambda: talk.user(""))
    return talk


@conversation
def long_messages(path: Path) -> Talk:
    talk = Talk(
        path,
        "A long letter: the model reads its two ends, a context quotes the part that fits.",
        Extraction=[
            extraction(memory("The key is under the blue pot.", attribute="key"))
        ],
    ).open(
        extraction__message_chars=400,
        context__excerpt_tokens=40,
        context__max_tokens=150,
    )
    letter = " ".join(
        f"Sentence {n} speaks of the garden, bed {n % 7}." for n in range(60)
    )
    letter += " The key is under the blue pot. " + letter[::-1][:600]
    val = talk.user("val")
    val.add([said(letter, "v1"), said("Short.", "v2", "2025-03-02")], session_id="s")
    val.flush()
    val.recall("Where is the key?", at="2025-03-03")
    val.recall("Where is the key?", at="2025-03-03", max_tokens=20)
    val.search_conversation("blue pot", 1)
    return talk


@conversation
def said_again(path: Path) -> Talk:
    talk = Talk(
        path,
        "The same again: by id, by text, as a whole conversation, as a record that is known.",
        Extraction=[
            extraction(
                memory("The user likes plums.", kind="preference", attribute="fruit")
            ),
            extraction(
                memory("The user likes  plums", kind="preference", attribute="fruit")
            ),
        ],
    ).open()
    uma = talk.user("uma")
    first = [
        {"role": "user", "content": "I like plums."},
        {"role": "ai", "content": "Good."},
    ]
    uma.add(first, session_id="s", at="2025-03-01T10:00", whole_conversation=True)
    uma.flush()
    whole = [*first, {"role": "user", "content": "I like plums."}]
    uma.add(whole, session_id="s", at="2025-03-01T10:00", whole_conversation=True)
    uma.add(whole, session_id="s", at="2025-03-01T10:00", whole_conversation=True)
    uma.flush()
    uma.recall("plums", at="2025-03-02")
    uma.export_records()
    uma.sessions()
    return talk


@conversation
def two_users(path: Path) -> Talk:
    def read(prompt: str) -> Any:
        who = "Cleo" if "Cleo" in prompt else "Dan"
        name = alias(prompt, "m", who)
        return extraction(memory(f"The user is called {who}.", name, attribute="name"))

    talk = Talk(
        path, "Two users: neither sees a word of the other.", Extraction=read
    ).open()
    cleo, dan = talk.user("cleo"), talk.user("dan")
    cleo.add([said("I am Cleo, my pin is 9911.", "m1")], session_id="s")
    dan.add([said("I am Dan, my pin is 4477.", "m1")], session_id="s")
    cleo.flush()
    dan.flush()
    for own in (cleo, dan):
        own.recall("What is my pin?", at="2025-03-02")
        own.export_records()
        own.get_conversation("m1")
    cleo.erase()
    cleo.recall("What is my pin?", at="2025-03-02")
    cleo.doctor()
    dan.doctor()
    return talk


@conversation
def imported_years(path: Path) -> Talk:
    talk = Talk(
        path, "Old talks with their own times, out of order; every way to rank."
    ).open(ranking__session_age_weight=0.0)
    old = talk.user("old")
    for year in (2023, 2019, 2021):
        messages = [
            said(
                f"In {year} I planted an apple tree.", f"t{year}", f"{year}-04-02T10:00"
            ),
            said(f"It is {year - 2018} m tall.", f"u{year}", f"{year}-05-02T10:00"),
        ]
        old.add(messages, session_id=f"year {year}")
    for ranking in ("hybrid", "rrf", "dense", "words"):
        old.search_conversation("apple tree 2021", 3, explain=True, ranking=ranking)
    old.search_conversation("apple tree", 3, "session", explain=True)
    old.recall("What did I plant in April 2019?", at="2024-01-01")
    old.sessions()
    old.flush()
    old.export_records()
    return talk


@conversation
def without_a_model(path: Path) -> Talk:
    talk = Talk(
        path, "No model: looking up works, reasoning says what it needs.", model=False
    )
    talk.open()
    nia = talk.user("nia")
    nia.flush()
    nia.add([said("My bike is green.", "n1")], session_id="s")
    nia.flush()
    nia.drain()
    nia.recall("bike", at="2025-03-02")
    nia.recall("bike", mode="auto")
    nia.ground({"title": "Lock", "type": "object", "properties": {}}, "lock it")
    nia.remember("The user's lock has the number 4711.")
    nia.search_records("lock")
    nia.recall("lock number", at="2025-03-02")
    nia.doctor()
    return talk
