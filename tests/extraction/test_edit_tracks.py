"""Edits of topic tracks: what was shown may be told anew, everything else may only grow."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_graph.extraction.edit_tracks import (
    MAX_EVIDENCE,
    MAX_NARRATIVE,
    EditedTracks,
    ShownToModel,
    apply_edits,
)
from langmem_graph.llm.answer_schemas import TrackEdit
from langmem_graph.topics.track_and_profile_files import MAX_TOPICS, TopicFile

STORY = "Bought a boat in May and sailed to Malta."
KNOWN = frozenset({"one", "two", "three", "old"})
SHOWN = ShownToModel(
    {"r1": "one", "r2": "two", "r3": "gone"}, frozenset({"boats"}), KNOWN
)


def topic(
    name: str, narrative: str = STORY, evidence: tuple[str, ...] = ("old",)
) -> TopicFile:
    fields = {
        "title": name.title(),
        "summary": "s",
        "narrative": narrative,
        "evidence": evidence,
    }
    return TopicFile(name=name, updated_at=datetime(2025, 1, 1, tzinfo=UTC), **fields)


HELD = {"boats": topic("boats"), "garden": topic("garden")}


def edit(name: str = "boats", **fields: Any) -> TrackEdit:
    return TrackEdit.model_validate(
        {"name": name, "summary": "new", "evidence": ["r1"]} | fields
    )


def after(*edits: TrackEdit) -> EditedTracks:
    return apply_edits(HELD, edits, SHOWN)


def test_sentences_are_added_to_any_track() -> None:
    done = after(edit(append="Sold it."), edit("garden", append="Planted beans."))
    assert done.tracks["boats"].narrative == f"{STORY}\nSold it."
    assert done.tracks["garden"].narrative == f"{STORY}\nPlanted beans."
    assert done.tracks["garden"].evidence == ["old", "one"]
    assert done.tracks["garden"].version == 2
    assert (done.told, done.refused, done.reasons) == ({"one"}, {}, [])


def test_the_narrative_of_a_track_that_was_not_shown_is_not_replaced() -> None:
    done = after(
        edit("garden", narrative="A garden with quite another story, all made up.")
    )
    assert done.tracks == HELD
    assert "was not shown" in done.refused["one"]
    both = edit(
        "garden", narrative="Another story.", append="Planted beans.", title="Forged"
    )
    done = after(both)
    assert done.tracks["garden"].narrative == f"{STORY}\nPlanted beans."
    assert done.tracks["garden"].title == "Garden"


def test_a_narrative_that_was_shown_may_be_told_anew_but_not_dropped() -> None:
    done = after(
        edit(narrative="Bought a boat, sailed to Malta, sold it.", title="The boat")
    )
    assert done.tracks["boats"].narrative == "Bought a boat, sailed to Malta, sold it."
    assert done.tracks["boats"].title == "The boat"
    assert "drops more" in after(edit(narrative="Boat.")).refused["one"]


def test_a_track_is_absorbed_only_where_it_was_shown_and_is_told() -> None:
    seen = ShownToModel(SHOWN.records, frozenset(HELD), KNOWN)
    merged = edit(
        "home", narrative=f"{STORY} Planted beans.", absorbs=["boats", "Garden", "none"]
    )
    done = apply_edits(HELD, [merged], seen)
    assert list(done.tracks) == ["home"]
    assert done.tracks["home"].evidence == ["old", "one"]
    assert after(merged).tracks == HELD  # the garden's narrative was not shown
    untold = edit("home", append="Both.", absorbs=["boats"])
    assert apply_edits(HELD, [untold], seen).tracks == HELD


def test_an_edit_that_rests_on_nothing_shown_is_refused() -> None:
    done = after(edit(evidence=["r9"], append="Sank."))
    assert done.tracks == HELD
    assert "names no record" in done.reasons[0]


def test_a_record_that_was_taken_back_is_no_evidence() -> None:
    done = after(edit(evidence=["[R3]"], append="It was not so."))
    assert done.tracks["boats"].evidence == ["old"]
    assert done.told == {"gone"}


def test_one_bad_edit_costs_no_good_one() -> None:
    done = after(edit("tools", narrative="", evidence=["r2"]), edit(append="Sold it."))
    assert done.tracks["boats"].narrative.endswith("Sold it.")
    assert set(done.refused) == {"two"}
    told = after(edit("tools", narrative="", evidence=["r1"]), edit(append="Sold it."))
    assert told.refused == {}  # another edit tells it
    assert len(told.reasons) == 1


def test_a_narrative_has_a_greatest_length() -> None:
    full = edit(append="x" * (MAX_NARRATIVE - len(STORY) - 1))
    assert len(after(full).tracks["boats"].narrative) == MAX_NARRATIVE
    done = after(edit(append="x" * (MAX_NARRATIVE - len(STORY))))
    assert done.tracks == HELD
    assert [one.name for one in done.too_long.values()] == ["boats"]


def test_there_are_at_most_twenty_tracks_unless_one_absorbs_another() -> None:
    many = {f"t{n}": topic(f"t{n}") for n in range(MAX_TOPICS)}
    shown = ShownToModel(SHOWN.records, frozenset(many), KNOWN)
    new = edit("more", narrative="More.")
    assert "at most 20" in apply_edits(many, [new], shown).refused["one"]
    merge = edit("t1", narrative=STORY, absorbs=["t2"], evidence=["r2"])
    done = apply_edits(many, [new, merge], shown)  # the merge comes first
    assert len(done.tracks) == MAX_TOPICS
    assert done.refused == {}


def test_evidence_has_a_greatest_length() -> None:
    every = tuple(f"e{n}" for n in range(MAX_EVIDENCE))
    held = {"boats": topic("boats", evidence=every)}
    shown = ShownToModel(SHOWN.records, frozenset(), KNOWN | set(every))
    evidence = (
        apply_edits(held, [edit(append="Sold it.")], shown).tracks["boats"].evidence
    )
    assert (len(evidence), evidence[0], evidence[-1]) == (MAX_EVIDENCE, "e1", "one")


words = st.text(max_size=30) | st.sampled_from(["boats", "garden", "x" * 1_990, STORY])
edits = st.builds(
    dict,
    name=words.map(lambda text: text[:80]),
    title=words.map(lambda text: text[:80]),
    summary=st.sampled_from(["", "now"]),
    narrative=words,
    append=words,
    evidence=st.lists(st.sampled_from(["r1", "r2", "r3", "r9", ""]), max_size=3),
    absorbs=st.lists(st.sampled_from(["boats", "garden", "none"]), max_size=2),
)


@given(st.lists(edits, max_size=5))
def test_whatever_is_answered_the_tracks_stay_usable(
    answers: list[dict[str, Any]],
) -> None:
    done = after(*(TrackEdit.model_validate(answer) for answer in answers))
    assert len(done.tracks) <= MAX_TOPICS
    assert all(
        track.evidence and KNOWN.issuperset(track.evidence)
        for track in done.tracks.values()
    )
    assert all(len(track.narrative) <= MAX_NARRATIVE for track in done.tracks.values())
    assert done.tracks["garden"].narrative.startswith(STORY)  # it was never shown
    assert not done.told & done.refused.keys()


def test_a_track_that_is_named_by_its_title_is_not_told_anew() -> None:
    done = after(
        edit("", title="GARDEN", summary="now", append="Moss.", evidence=["r1"])
    )
    assert done.tracks["garden"].narrative == f"{STORY}\nMoss."


def test_a_summary_of_a_new_track_is_required() -> None:
    done = after(edit("tools", summary="", narrative="Tools."))
    assert "summary" in done.refused["one"]


@pytest.mark.parametrize("name", ["../../x", "topics/boats.md", "Boats!"])
def test_a_name_becomes_a_safe_one(name: str) -> None:
    done = after(edit(name, narrative=STORY))
    assert set(done.tracks) <= {"boats", "garden", "x", "topics-boats-md"}
