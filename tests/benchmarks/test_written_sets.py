"""The written sets say what their README says they hold."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

SETS = Path("benchmarks/sets")
EPISODES = sorted((SETS / "episodes").glob("*.json"))
KINDS = {
    "cascade": 3,
    "absence": 3,
    "independent": 3,
    "tracking": 1,
    "aggregation": 1,
    "forget": 1,
    "verbatim": 1,
}


def lines(name: str) -> list[dict[str, Any]]:
    text = (SETS / "forgetting" / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def message(talk: dict[str, Any], place: list[int]) -> dict[str, str]:
    session, number = place
    said: dict[str, str] = talk["sessions"][session]["messages"][number]
    return said


def test_there_are_twelve_episodes() -> None:
    languages = Counter(json.loads(file.read_text())["language"] for file in EPISODES)
    assert languages == {"en": 9, "fr": 1, "pt": 1, "tr": 1}


@pytest.mark.parametrize("file", EPISODES, ids=lambda file: file.stem)
def test_an_episode_is_whole(file: Path) -> None:
    episode = json.loads(file.read_text(encoding="utf-8"))
    assert message(episode, episode["change"])["role"] == "user"
    assert Counter(fact["kind"] for fact in episode["facts"]) == KINDS
    for fact in episode["facts"]:
        for place in fact.get("sources", []):
            assert message(episode, place)["role"] == "user"
        if fact["kind"] in ("cascade", "absence"):
            assert set(fact["questions"]) == {"outright", "presupposing", "task"}
        if fact["kind"] == "verbatim":
            sources = [message(episode, place) for place in fact["sources"]]
            assert any(fact["text"] in said["content"] for said in sources)
        if fact["kind"] == "forget":
            assert fact["value"] in message(episode, fact["told"])["content"]
            assert fact["value"] not in message(episode, fact["asked"])["content"]


def test_requests_to_forget_name_what_was_told() -> None:
    requests = lines("requests.jsonl")
    languages = Counter(talk["language"] for talk in requests)
    assert languages == {"en": 10, "de": 10, "es": 10, "zh": 10}
    for talk in requests:
        assert message(talk, talk["request"])["role"] == "user"
        for place in talk["told"]:
            assert talk["value"] in message(talk, place)["content"]


def test_near_misses_and_attacks_have_what_must_stay() -> None:
    near_misses, attacks = lines("near_misses.jsonl"), lines("attacks.jsonl")
    assert (len(near_misses), len(attacks)) == (80, 60)
    for talk in near_misses:
        assert message(talk, talk["near"])["role"] == "user"
    for talk in attacks:
        assert message(talk, talk["attack"])["content"]
        assert len(talk["still"]) >= 4
