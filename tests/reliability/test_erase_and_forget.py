"""What is forgotten, expired or erased is in no file any more: ledger, logs, indexes, Chroma.

The words looked for begin with letters that no other word here begins with: the full-text index
stores a term without the letters that it shares with the one before.
"""

import logging
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from langmem_graph.errors import StorageError
from langmem_graph.memory import Memory
from langmem_graph.settings import ExtractionSettings, Settings, StorageSettings
from langmem_graph.storage import memory_services
from langmem_graph.testing import HashEmbeddings
from tests.support.chroma_server import Server
from tests.support.killed_writer import kill_at
from tests.support.loopback import loopback_alone
from tests.support.models import AnswersBySchema
from tests.support.processes import PROCESSES
from tests.support.topic_tracks import changed_lines, texts_in
from tests.support.traces import hits
from tests.support.writing import change, line_aliases, memories

SMALL = Settings(
    storage=StorageSettings(index_batch=4),
    extraction=ExtractionSettings(cluster_max_distance=1.5),
)
SECRETS = {
    "id": "qorvex8841",
    "text": "zimbrel5520",
    "name": "xanthor7316",
    "session": "jukkle4402",
    "tool": "vyrmok9953",
    "model": "yelbrin1187",
}
"""A message's id, text, speaker, session and tool call, and what a model makes of it."""
AGREED = "Yes, that is right."
COMMON = [f"the boat of Anna is red and has {n} oars" for n in range(6)]


def own(words: str) -> str:
    """The model's own secret, where it speaks of the secret message."""
    return SECRETS["model"] if SECRETS["text"] in words else "plain"


def _row(alias: str, said: str, place: int) -> dict[str, Any]:
    word = own(said)
    return {
        "text": f"It was said ({word}): {said}"[:390],
        "sources": [alias],
        "subject": word,
        "attribute": f"{word} {place}",
        "values": [{"raw": said[:60], "value": f"{word} {place}", "name": word}],
        "project": word,
        "facet": "schedule" if place == 0 or word != "plain" else "none",
        "when": "2099-05-01T09:00",
    }


def _changes(said: dict[str, str], question: str) -> Iterator[dict[str, Any]]:
    """The secret proposal, which the user accepts, takes the place of what was recorded first."""
    secret = next(
        (alias for alias, words in said.items() if SECRETS["text"] in words), None
    )
    if secret is not None and (shown := re.search(r"^n\d+", question, re.MULTILINE)):
        accepted = {"agreed_message": list(said)[-1], "agreed_quote": AGREED}
        place = {"by": list(said).index(secret), "message": secret}
        yield change(shown[0], "replaces", said[secret], **place, **accepted)


def scripted_model() -> AnswersBySchema:
    """Makes records, a track and a profile that repeat what was said, with a word of its own."""

    def extract(question: str) -> dict[str, Any]:
        said = line_aliases(question)
        rows = [
            _row(alias, words, place)
            for place, (alias, words) in enumerate(said.items())
        ]
        return memories(*rows[:20], changes=list(_changes(said, question)))

    def gather(question: str) -> dict[str, Any]:
        told = " ".join(texts_in(question))
        track = {
            "name": "boats",
            "title": "Boats",
            "summary": told[:300],
            "narrative": told[:900],
        }
        return {"tracks": [{**track, "evidence": list(changed_lines(question))}]}

    def describe(question: str) -> dict[str, Any]:
        return {"text": question.split("Topic tracks:")[1][:900], "topics": ["boats"]}

    pairs = {"pairs": [{"cause": "r1", "effect": "r2"}]}
    return AnswersBySchema(
        Extraction=extract, TopicRound=gather, ProfileText=describe, CausalPairs=pairs
    )


def secret_message() -> dict[str, Any]:
    call = {"name": "book", "args": {"place": SECRETS["tool"]}, "id": "c"}
    return {
        "role": "assistant",
        "content": f"I booked {SECRETS['text']} for the boat of Anna",
        "id": SECRETS["id"],
        "name": SECRETS["name"],
        "tool_calls": [call],
    }


def fill(user: Any) -> None:
    """Common talk, and one message full of secrets, read by the model and by hand."""
    talk = [
        {"role": "user", "content": text, "id": f"m{n}"}
        for n, text in enumerate(COMMON)
    ]
    user.add(talk[:3], session_id="plain", at="2020-01-01")
    user.flush()
    agreed = {"role": "user", "content": AGREED, "id": "m9"}
    user.add(
        [*talk[3:], secret_message(), agreed],
        session_id=SECRETS["session"],
        at="2020-01-02",
    )
    report = user.flush()
    assert report.stored
    assert report.updated == 1
    row = {
        "text": f"Anna asked for {SECRETS['text']}.",
        "source_message_ids": [SECRETS["id"]],
    }
    user.add_records([{**row, "record_id": "own", "scene": SECRETS["model"]}])
    user.search_records(SECRETS["text"])
    user.search_conversation(SECRETS["text"])
    assert user.recall(SECRETS["text"]).context
    assert SECRETS["text"] in str(user.export()) + str(
        user.export_records(history=True)
    )


def forget_message(user: Any) -> list[str]:
    """The message goes; its session stays, since others were said in it."""
    assert user.forget(message=SECRETS["id"]).messages == 1
    return [word for place, word in SECRETS.items() if place != "session"]


def forget_session(user: Any) -> list[str]:
    assert user.forget(session=SECRETS["session"]).messages == 5
    return list(SECRETS.values())


def forget_records(user: Any) -> list[str]:
    """Everything that was made; the messages stay."""
    for row in user.export_records(history=True):
        user.forget(record=row["record_id"])
    return [SECRETS["model"]]


def expire(user: Any) -> list[str]:
    """All of it is too old."""
    user.keep_days(messages=30)
    report = user.expire()
    assert (report.messages, report.kept, report.traces_left) == (8, 0, False)
    return list(SECRETS.values())


def erase(user: Any) -> list[str]:
    assert user.erase().files > 0
    return list(SECRETS.values())


WAYS: list[Callable[[Any], list[str]]] = [
    forget_message,
    forget_session,
    forget_records,
    expire,
    erase,
]


@contextmanager
def logged(file: Path) -> Iterator[None]:
    """Everything this library logs goes to a file."""
    handler, log = logging.FileHandler(file), logging.getLogger("langmem_graph")
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        log.setLevel(level)
        log.removeHandler(handler)
        handler.close()


class Load:
    """Threads that fill the process's memory with the secrets, and let others make new indexes."""

    def __init__(self, memory: Memory, threads: int = 2) -> None:
        self._memory = memory
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._churn, args=(n,)) for n in range(threads)
        ]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _churn(self, number: int) -> None:
        rounds, chance = 0, random.Random(number)
        while not self._stop.wait(0.002):
            words = " ".join(SECRETS.values())
            held = [
                f"{words} {n} " * chance.choice([1, 30, 700, 3_000]) for n in range(8)
            ]
            del held
            rounds += 1
            if rounds % 10 == 0:
                other = self._memory.user(f"other {number} {rounds}")
                talk = [{"role": "user", "content": text} for text in COMMON]
                other.add(talk, session_id="plain")
                other.search_conversation("boat")


def trial(
    where: Path, way: Callable[[Any], list[str]], chroma: str | None
) -> list[Any]:
    """Fill, let go, look; and once more when everything is closed."""
    embedder = HashEmbeddings(384)
    with (
        logged(where / "log"),
        Memory(
            where / "m",
            model=scripted_model(),
            embeddings=embedder,
            settings=SMALL,
            chroma=chroma,
        ) as memory,
    ):
        user = memory.user(f"{way.__name__} user")
        with Load(memory):
            fill(user)
            gone = way(user)
            assert not [
                word for word in gone if word in str(user.export_records(history=True))
            ]
            assert not [word for word in gone if word in str(user.export())]
        found = hits(where, gone)
        user.add(
            {"role": "user", "content": "and more", "id": "more"}, session_id="later"
        )
        user.search_conversation("boat")
    return found + hits(where, gone)


@pytest.mark.parametrize("way", WAYS)
def test_no_word_is_left(tmp_path: Path, way: Callable[[Any], list[str]]) -> None:
    assert trial(tmp_path, way, None) == []


@pytest.mark.stress
@pytest.mark.timeout(1_500)
@pytest.mark.parametrize("way", WAYS)
def test_no_word_is_left_in_many_trials(
    tmp_path: Path, way: Callable[[Any], list[str]]
) -> None:
    found = []
    for number in range(50):
        where = tmp_path / str(number)
        where.mkdir()
        found += trial(where, way, None)
    print(f"{way.__name__}: {len(found)} hits in 50 trials under load")
    assert found == []


@pytest.mark.enable_socket
@pytest.mark.parametrize(
    "way",
    [
        *(pytest.param(way, marks=pytest.mark.long) for way in (forget_session, erase)),
        *(
            pytest.param(way, marks=pytest.mark.stress)
            for way in (forget_message, forget_records, expire)
        ),
    ],
)
def test_no_word_is_left_with_a_chroma_server(
    tmp_path: Path, socket_enabled: None, way: Callable[[Any], list[str]]
) -> None:
    with loopback_alone():
        server = Server(tmp_path / "server")
        try:
            assert trial(tmp_path, way, server.url) == []
        finally:
            server.stop()


def test_words_are_forgotten_while_a_chroma_server_is_down(
    tmp_path: Path, socket_enabled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They leave the ledger at once, the report says that the index holds them, and
    they leave it, too, once the server is back.
    """
    monkeypatch.setattr(memory_services, "RETRY_SECONDS", 0.1)
    with loopback_alone():
        server = Server(tmp_path / "server")
        try:
            opened = Memory(
                tmp_path / "m",
                model=scripted_model(),
                embeddings="hash",
                settings=SMALL,
                chroma=server.url,
            )
            with opened as memory:
                user = memory.user("u")
                fill(user)
                assert hits(tmp_path / "m", SECRETS.values())
                server.stop()
                report = user.forget(session=SECRETS["session"])
                assert report.messages
                assert report.traces_left
                assert hits(tmp_path / "m", SECRETS.values()) == []
                server.start()
                until = time.monotonic() + 60
                while memory._services._with_traces:
                    assert time.monotonic() < until
                    time.sleep(0.1)
                assert not user.forget(message="no such message").traces_left
                assert user.doctor(sample=0).ok
            assert hits(tmp_path, SECRETS.values()) == []
        finally:
            server.stop()


def test_the_search_for_words_finds_them(tmp_path: Path) -> None:
    """What is not forgotten is found by the same look into the files."""
    with Memory(
        tmp_path / "m", model=scripted_model(), embeddings="hash", settings=SMALL
    ) as memory:
        fill(memory.user("u"))
        held = {word for _, word in hits(tmp_path, SECRETS.values())}
    assert held == set(SECRETS.values())


UNFINISHED = [
    ("storage.full_text:optimize_words", True),
    ("storage.full_text:optimize_words", False),
    ("storage.user_room:LedgerFolder.renew_index", False),
    ("storage.sqlite_database:Database.checkpoint", True),
]


def forget_and_die(path: str, point: str, before: bool) -> None:
    with Memory(
        Path(path), model=scripted_model(), embeddings="hash", settings=SMALL
    ) as memory:
        fill(memory.user("u"))
        kill_at(point, 1, before)
        forget_session(memory.user("u"))


@pytest.mark.parametrize(("point", "before"), UNFINISHED)
def test_a_forgetting_that_was_killed_is_finished_at_the_next_opening(
    tmp_path: Path, point: str, before: bool
) -> None:
    task = (str(tmp_path / "m"), point, before)
    process = PROCESSES.Process(target=forget_and_die, args=task)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    with Memory(tmp_path / "m", embeddings="hash", settings=SMALL) as memory:
        assert len(memory.user("u").export()) == 3
        assert hits(tmp_path, SECRETS.values()) == []
        assert memory.user("u").doctor(sample=0).ok


def test_a_forgetting_that_failed_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory(
        tmp_path / "m", model=scripted_model(), embeddings="hash", settings=SMALL
    ) as memory:
        user = memory.user("u")
        fill(user)
        with monkeypatch.context() as patch:
            patch.setattr("shutil.rmtree", lambda _: exec("raise OSError('busy')"))
            with pytest.raises(StorageError, match="busy"):
                user.forget(session=SECRETS["session"])
        user.forget(message="no such message")
        assert hits(tmp_path, SECRETS.values()) == []
