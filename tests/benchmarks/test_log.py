"""The lines of a run: what a crash leaves of them, and what is asked again."""

import pytest

from benchmarks.log import Log


def row(question="q1", **more):
    own = {"row": "asked", "system": "bm25", "conversation": "c", "question": question}
    return {**own, "failures": [], **more}


@pytest.mark.parametrize(
    "text", ["a\u2028b", "a\u0085b", "a\x1cb", "a\rb", "a\ud83db", "äß👍"]
)
def test_what_a_model_says_never_breaks_a_line(tmp_path, text):
    file = tmp_path / "items.jsonl"
    Log(file).add(row(reason=text))
    (again,) = Log(file).rows("asked")
    (once_more,) = Log(file).rows("asked")
    assert again == once_more
    assert again["reason"] == text


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_line_that_was_cut_off_is_ignored_wherever_it_was_cut(tmp_path, cut):
    file = tmp_path / "items.jsonl"
    Log(file).add(row("q1"))
    whole = file.read_bytes()
    Log(file).add(row("q2", reason="ä👍" * 6))
    file.write_bytes(file.read_bytes()[:-cut])
    log = Log(file)
    assert [one["question"] for one in log.rows("asked")][:1] == ["q1"]
    log.add(row("q3"))
    assert {"q1", "q3"} <= {one["question"] for one in Log(file).rows("asked")}
    assert file.read_bytes().startswith(whole)


def test_a_crash_while_it_is_opened_loses_nothing(tmp_path, monkeypatch):
    """The file is put in order by another beside it, which takes its place when it is whole."""
    file = tmp_path / "items.jsonl"
    Log(file).add(row("q1"))
    with file.open("a", encoding="utf-8") as lines:
        lines.write('{"row": "ask')

    def full(self, *args, **options):
        raise OSError("no room")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(OSError, match="no room"):
        Log(file)
    monkeypatch.undo()
    assert [one["question"] for one in Log(file).rows("asked")] == ["q1"]


def test_only_failures_of_who_is_asked_now_are_forgotten(tmp_path):
    file = tmp_path / "items.jsonl"
    first = Log(file)
    first.add(row("q1", failures=["answer: gone"]))
    first.add(row("q1", system="ours", failures=["answer: gone"]))
    first.add(row("q2"))
    # perhaps not read again
    first.add(row(row="added", place=0, failures=["memory: unread"]))
    Log(file, retry=["bm25"])
    assert len(Log(file).rows("added")) == 1
    kept = [(one["system"], one["question"]) for one in Log(file).rows("asked")]
    assert kept == [("ours", "q1"), ("bm25", "q2")]
