"""Topic tracks and the profile as files: nothing lost on the way, nothing hostile let in."""

import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_graph.errors import InvalidInputError
from langmem_graph.topics.track_and_profile_files import (
    ProfileFile,
    TopicFile,
    file_name,
    is_file_name,
    parse,
    profile_problems,
    render,
    render_index,
    slug,
)

NOW = datetime(2025, 5, 3, 10, tzinfo=UTC)


def topic(
    name: str = "travel", evidence: tuple[str, ...] = ("r1",), **more: Any
) -> TopicFile:
    fields = {
        "name": name,
        "title": "Travel: plans & tickets",
        "summary": "Goes to Lisbon in June.",
        "narrative": "Booked a flight.\n\n---\n\nThen a hotel.",
        "evidence": list(evidence),
        "version": 2,
        "updated_at": NOW,
    }
    return TopicFile(**(fields | more))


def profile(
    text: str = "Likes aisle seats.", topics: tuple[str, ...] = ("travel",)
) -> ProfileFile:
    return ProfileFile(text=text, topics=list(topics), version=1, updated_at=NOW)


def test_a_topic_reads_like_a_document() -> None:
    assert render(topic()) == (
        "---\n"
        "kind: topic\n"
        "name: travel\n"
        "title: 'Travel: plans & tickets'\n"
        "version: 2\n"
        "updated_at: '2025-05-03T10:00:00+00:00'\n"
        "---\n\n"
        "## Summary\n\nGoes to Lisbon in June.\n\n"
        "## Narrative\n\nBooked a flight.\n\n---\n\nThen a hotel.\n\n"
        "## Evidence\n\n- r1\n"
    )


# Control characters and half characters are refused; everything else is text.
signs = st.characters(exclude_categories=("Cc", "Cs"))
lines = st.text(signs, max_size=30) | st.sampled_from(
    [
        "---",
        "- r1",
        "## Evidence",
        r"\## Summary",
        "## Narrative  ",
        "# x",
        "kind: topic",
        "&a *a",
    ]
)
texts = st.lists(lines, min_size=1, max_size=8).map("\n".join)
full_texts = texts.filter(str.strip)
slugs = st.from_regex(r"[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}", fullmatch=True)
moments = st.datetimes(timezones=st.just(UTC))
versions = st.integers(1, 10**6)


@given(
    st.builds(
        TopicFile,
        name=slugs,
        title=st.text(signs, min_size=1, max_size=60).filter(str.strip),
        summary=full_texts,
        narrative=full_texts,
        evidence=st.lists(st.from_regex(r"[!-~]{1,20}", fullmatch=True), max_size=6),
        version=versions,
        updated_at=moments,
    )
)
def test_a_topic_is_read_as_it_was_written(file: TopicFile) -> None:
    assert parse(render(file)) == file
    assert is_file_name(file_name(file))


@given(
    st.builds(
        ProfileFile,
        text=texts,
        topics=st.lists(slugs, max_size=20),
        version=versions,
        updated_at=moments,
    )
)
def test_a_profile_is_read_as_it_was_written(file: ProfileFile) -> None:
    assert parse(render(file)) == file


@given(st.text() | lines.map(lambda line: f"---\n{line}\n---\n{line}"))
def test_whatever_is_given_is_read_or_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        parse(text)


@given(st.text(max_size=40), st.integers(0, 300))
def test_a_damaged_file_is_read_or_refused(noise: str, place: int) -> None:
    good = render(topic())
    try:
        file = parse(good[:place] + noise + good[place:])
    except InvalidInputError:
        return
    assert parse(render(file)) == file


def front(**fields: str) -> str:
    known = {
        "kind": "topic",
        "name": "travel",
        "title": "Travel",
        "version": "1",
        "updated_at": "2025-05-03",
    }
    listed = "\n".join(
        f"{name}: {value}" for name, value in (known | fields).items() if value
    )
    return f"---\n{listed}\n---\n## Summary\nx\n## Narrative\ny\n## Evidence\n- r1\n"


def test_a_hand_written_file_is_read() -> None:
    file = parse(front())
    assert isinstance(file, TopicFile)
    assert (file.summary, file.narrative, file.evidence) == ("x", "y", ["r1"])
    assert file.updated_at == datetime(2025, 5, 3, tzinfo=UTC)
    other_headings = front().replace("\ny\n", "\ny\n## In June\nz\n")
    assert parse(other_headings).narrative == "y\n## In June\nz"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "front matter is missing"),
        ("# Travel", "front matter is missing"),
        ("---\nkind: topic\n", "front matter is missing"),
        (front(title="!!python/object/apply:os.system ['true']"), "not YAML"),
        (front(title="[" * 7_000), "not YAML"),
        (front(title="'open"), "not YAML"),
        (front(version="9" * 5_000), "not YAML"),
        (front(updated_at="2025-13-45"), "not YAML"),
        ("---\n- a\n---\n", "must be fields"),
        ("---\n1: a\n---\n", "must be fields"),
        (front(kind="poem"), "kind must be 'topic' or 'profile', not 'poem'"),
        (front(kind=""), "kind must be"),
        (front(name=""), "name: Field required"),
        (front(name="../secret"), "name: String should match"),
        (front(title="2025"), "title: Input should be a valid string"),
        (front(title='"a\\nb"'), "title: must be one line"),
        (front(title='"a\\eb"'), "title: holds the control character"),
        (front(version="'1'"), "version: Input should be a valid integer"),
        (front(version="true"), "version: Input should be a valid integer"),
        (front(version="0"), "version: Input should be greater"),
        (front(updated_at="5"), "updated_at: must be a time"),
        (front(updated_at="soon"), "updated_at: Not a time"),
        (front(mood="good"), "mood: Extra inputs"),
        (front(self="1"), "self: Extra inputs"),
        (front().replace("## Evidence\n- r1\n", ""), "found Summary, Narrative"),
        (front().replace("\ny\n", "\ny\n## Summary\n"), "found Summary, Narrative, Summary"),
        (front().replace("## Summary", "Hello\n## Summary"), "nothing before them"),
        (front().replace("- r1", "r1"), "one `- id` per line"),
        (front().replace("- r1", "- r 1"), "evidence.0: String should match"),
        (front().replace("\ny\n", "\ny\0\n"), "narrative: holds the control character"),
        (front().replace("\ny\n", "\n\n"), "narrative: String should have at least 1"),
        (front().replace("\ny\n", "\n\ud800\n"), "narrative: Input should be a valid string"),
        (front().replace("\ny\n", f"\n{'y' * 20_001}\n"), "narrative: String should have at most"),
        ("---\nkind: profile\n---\n" + "x" * 2_001, "text: String should have at most 2000"),
        ("---\nkind: profile\ntopics: travel\n---\n", "topics: Input should be a valid list"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_named(text: str, problem: str) -> None:
    begun = time.thread_time()
    with pytest.raises(InvalidInputError, match=problem.replace("(", r"\(")):
        parse(text)
    assert time.thread_time() - begun < 5


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("profile.md", True),
        ("index.md", True),
        ("topics/travel.md", True),
        ("topics/a-1.md", True),
        ("topics/../profile.md", False),
        ("topics/Travel.md", False),
        ("topics/travel.md\n", False),
        ("topics/.md", False),
        ("topics/" + "a" * 65 + ".md", False),
        ("/etc/passwd", False),
        ("topics\\travel.md", False),
        ("ledger.db", False),
        ("", False),
        (None, False),
    ],
)
def test_only_our_own_names_are_file_names(name: object, known: bool) -> None:
    assert is_file_name(name) is known


@given(st.text())
def test_every_title_has_a_safe_name(title: str) -> None:
    assert is_file_name(f"topics/{slug(title)}.md")


def test_names_from_titles() -> None:
    assert slug("Viaje a São Paulo!") == "viaje-a-sao-paulo"
    assert slug("旅行").startswith("topic-")
    assert slug("旅行") != slug("料理")


def test_the_index_lists_the_latest_first() -> None:
    older = topic("work", title="Work", updated_at=datetime(2024, 1, 1, tzinfo=UTC))
    assert render_index([older, topic()], profile()) == (
        "# Index\n\n"
        "- [profile.md](profile.md): 18 characters\n\n"
        "- [Travel: plans & tickets](topics/travel.md): Goes to Lisbon in June. "
        "(1 records, 2025-05-03)\n"
        "- [Work](topics/work.md): Goes to Lisbon in June. (1 records, 2024-01-01)\n"
    )
    assert render_index([]) == "# Index\n"


@pytest.mark.parametrize(
    ("about", "problem"),
    [
        (profile(), ""),
        (profile(topics=("food",)), "topic 'food' does not exist"),
        (profile("See topics/food.md."), "topic 'food' does not exist"),
        (profile(topics=()), "names no topics"),
        (profile("Aisle seats (topics/travel.md).", topics=()), ""),
        (profile("", topics=()), ""),
    ],
)
def test_a_profile_names_topics_that_exist(about: ProfileFile, problem: str) -> None:
    found = profile_problems(about, {"travel"})
    assert [problem in one for one in found] == [True] * bool(problem)


def test_a_profile_without_any_topic_names_none() -> None:
    assert profile_problems(profile(topics=()), set()) == []
