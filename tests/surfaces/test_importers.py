"""Importers: every format, its own times, and files that are damaged."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_graph.errors import ImportFormatError
from langmem_graph.importers import Conversation, read_conversations
from langmem_graph.memory import Memory
from tests.support.examples import examples


def read(tmp_path: Path, content: Any, name: str = "file.json") -> list[Conversation]:
    file = tmp_path / name
    file.write_text(
        content if isinstance(content, str) else json.dumps(content), encoding="utf-8"
    )
    return list(read_conversations(file))


def test_chat_jsonl_with_a_conversation_per_line(tmp_path: Path) -> None:
    lines = [
        {
            "session_id": "a",
            "messages": [{"role": "user", "content": "hi", "at": "2024-01-01"}],
        },
        {"messages": [{"role": "user", "content": "x"}], "created_at": 1_700_000_000},
    ]
    first, second = read(tmp_path, "\n\n".join(map(json.dumps, lines)), "chat.jsonl")
    assert (first.session_id, first.messages[0]["at"]) == ("a", "2024-01-01")
    assert (second.session_id, second.messages[0]["at"]) == ("chat-3", 1_700_000_000)


def test_chat_jsonl_with_a_message_per_line(tmp_path: Path) -> None:
    lines = [
        {"role": "user", "content": "1", "session_id": "a"},
        {"role": "assistant", "content": "2", "thread_id": "b"},
        {
            "role": "user",
            "content": "3",
            "session_id": "a",
            "timestamp": "2024-01-01T00:00:00Z",
        },
    ]
    a, b = read(tmp_path, "\n".join(map(json.dumps, lines)), "chat.jsonl")
    assert [message["content"] for message in a.messages] == ["1", "3"]
    assert (b.session_id, a.messages[1]["at"]) == ("b", "2024-01-01T00:00:00Z")


def test_ids_that_count_from_one_in_each_conversation_do_not_collide(
    tmp_path: Path,
) -> None:
    lines = [
        {"session_id": s, "messages": [{"role": "user", "content": "Hi", "id": 1}]}
        for s in "ab"
    ]
    talks = read(tmp_path, "\n".join(map(json.dumps, lines)), "chat.jsonl")
    assert [talk.messages[0]["id"] for talk in talks] == ["a/1", "b/1"]


def test_a_json_array_is_as_good_as_lines(tmp_path: Path) -> None:
    (talk,) = read(
        tmp_path, [{"role": "user", "content": "Hi"}, {"role": "ai", "content": "Yo"}]
    )
    assert [message["content"] for message in talk.messages] == ["Hi", "Yo"]


def test_line_separators_within_a_text_end_no_line(tmp_path: Path) -> None:
    text = "one\u2028two\u2029three\x85four"
    line = json.dumps({"role": "user", "content": text}, ensure_ascii=False)
    (talk,) = read(tmp_path, line, "chat.jsonl")
    assert talk.messages[0]["content"] == text


def _node(
    key: str, parent: str | None, role: str, *parts: Any, **more: Any
) -> dict[str, Any]:
    message = {
        "id": key,
        "author": {"role": role},
        "create_time": 1_700_000_000.5,
        "content": {"content_type": "text", "parts": list(parts)},
        **more,
    }
    return {"id": key, "parent": parent, "children": [], "message": message}


def _chatgpt() -> list[dict[str, Any]]:
    nodes = [
        {"id": "root", "parent": None, "children": ["sys"], "message": None},
        _node("sys", "root", "system", "You are helpful"),
        _node("u1", "sys", "user", "Where is Basel?"),
        _node("old", "u1", "assistant", "An answer that was regenerated"),
        _node("a1", "u1", "assistant", "In Switzerland."),
        _node("u2", "a1", "user", {"content_type": "image_asset_pointer"}, "And this?"),
        _node(
            "hid",
            "u2",
            "user",
            "x",
            metadata={"is_visually_hidden_from_conversation": True},
        ),
        _node("a2", "hid", "assistant", "A tram."),
    ]
    mapping = {node["id"]: node for node in nodes}
    return [
        {
            "conversation_id": "c1",
            "create_time": 1.0,
            "current_node": "a2",
            "mapping": mapping,
        }
    ]


def test_chatgpt_export_keeps_the_shown_branch_and_its_times(tmp_path: Path) -> None:
    (talk,) = read(tmp_path, _chatgpt(), "conversations.json")
    assert talk.session_id == "c1"
    assert [m["id"] for m in talk.messages] == ["u1", "a1", "u2", "a2"]
    assert talk.messages[2]["content"] == "And this?"
    assert talk.messages[0]["at"] == 1_700_000_000.5


def test_chatgpt_zip_and_a_tree_that_bites_its_tail(tmp_path: Path) -> None:
    data = _chatgpt()
    data[0]["mapping"]["root"]["parent"] = "a2"
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("conversations.json", json.dumps(data))
    (talk,) = read_conversations(tmp_path / "export.zip")
    assert len(talk.messages) == 4


COMPRESSED = 30 + len("conversations.json")
"""Where the compressed bytes of a zip's only file begin."""


@pytest.mark.parametrize(
    ("method", "places", "written"),
    [
        (zipfile.ZIP_DEFLATED, (6, 8), b"\x01"),  # says that it is encrypted
        (zipfile.ZIP_DEFLATED, (8, 10), b"\x61"),  # a method that nobody knows
        (zipfile.ZIP_DEFLATED, (COMPRESSED, None), b"\xff" * 10),
        (zipfile.ZIP_LZMA, (COMPRESSED + 4, None), b"\xff" * 16),
        (zipfile.ZIP_BZIP2, (COMPRESSED, None), b"\xff" * 10),
    ],
)
def test_a_zip_that_cannot_be_unpacked(
    tmp_path: Path, method: int, places: tuple[int, int | None], written: bytes
) -> None:
    file = tmp_path / "export.zip"
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("conversations.json", json.dumps(_chatgpt()))
    content = bytearray(file.read_bytes())
    directory = content.index(b"PK\1\2")
    local, listed = places
    content[local : local + len(written)] = written
    if listed is not None:
        content[directory + listed : directory + listed + len(written)] = written
    file.write_bytes(content)
    with pytest.raises(ImportFormatError, match=r"export\.zip cannot be read"):
        list(read_conversations(file))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", None),
        ("not json at all", "Line 1 is not JSON"),
        ('{"role": "user", "content": "x"}\n{"a": 1}', "Line 2 is no chat"),
        ('{"a": 1}', "in no format we know"),
        ("[]", "in no format we know"),
        ("5", "in no format we know"),
        ('{"messages": ["text"]}', "must be an object"),
        ([{"mapping": {"a": 5}, "current_node": "a"}], "damaged"),
        ({"conversation": {"session_1": [{}]}}, "Known: chat JSONL"),
        ({"dialogues": [{"dialogue_turns": []}]}, "ChatGPT export"),
    ],
)
def test_damaged_files_say_what_is_wrong(
    tmp_path: Path, content: Any, problem: str | None
) -> None:
    if problem is None:
        assert read(tmp_path, content) == []
        return
    with pytest.raises(ImportFormatError, match=problem):
        read(tmp_path, content)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00garbage")
    for file in (tmp_path / "binary", tmp_path / "missing", tmp_path):
        with pytest.raises(ImportFormatError, match="cannot be read"):
            list(read_conversations(file))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["mapping", "messages", "role", "content", "conversation", "session_1", "dialogues",
                 "dialogue_turns", "parts", "current_node", "message", "parent", "author"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)  # fmt: skip


@given(_JSON)
@settings(max_examples=examples(150), deadline=None)
def test_any_json_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    file = tmp_path_factory.mktemp("any") / "file.json"
    file.write_text(json.dumps(data))
    try:
        talks = list(read_conversations(file))
    except ImportFormatError:
        return
    with Memory(tmp_path_factory.mktemp("m"), embeddings="hash") as memory:
        for talk in talks:
            memory.user("u").add(talk.messages, session_id=talk.session_id)
