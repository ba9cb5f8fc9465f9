"""A ChatGPT data export: `conversations.json`, a list of trees of messages."""

from collections.abc import Iterator
from typing import Any

from langmem_graph.importers.chat_jsonl import Conversation


def is_chatgpt(data: Any) -> bool:
    """True for the list of conversations, or for one of them."""
    first = data[0] if isinstance(data, list) and data else data
    return isinstance(first, dict) and isinstance(first.get("mapping"), dict)


def read_chatgpt(data: Any) -> Iterator[Conversation]:
    """Conversations in the file's order; of each tree only the branch that was shown last."""
    for number, talk in enumerate(data if isinstance(data, list) else [data], 1):
        name = talk.get("conversation_id") or talk.get("id") or f"chatgpt-{number}"
        nodes = [node.get("message") for node in _shown_branch(talk)]
        messages = [_message(m, talk.get("create_time")) for m in nodes if m and not _hidden(m)]
        yield Conversation(str(name), messages)


def _shown_branch(talk: dict[str, Any]) -> list[dict[str, Any]]:
    """The nodes from the root to the message that was shown last."""
    nodes: dict[str, Any] = talk["mapping"]
    branch: list[dict[str, Any]] = []
    leaves = [key for key, node in nodes.items() if not node.get("children")]
    key, seen = talk.get("current_node") or (leaves[-1] if leaves else None), set()
    while key in nodes and key not in seen:
        seen.add(key)
        branch.append(nodes[key])
        key = nodes[key].get("parent")
    return branch[::-1]


def _hidden(message: dict[str, Any]) -> bool:
    """True for messages that the user never saw, and for those without text."""
    metadata = message.get("metadata") or {}
    role = (message.get("author") or {}).get("role")
    kind = (message.get("content") or {}).get("content_type", "text")
    unseen = metadata.get("is_visually_hidden_from_conversation") or role == "system"
    return bool(unseen) or kind not in ("text", "multimodal_text") or not _words(message)


def _words(message: dict[str, Any]) -> str:
    parts = (message.get("content") or {}).get("parts") or []
    texts = [part if isinstance(part, str) else part.get("text") or "" for part in parts if part]
    return "\n".join(text for text in texts if text.strip())


def _message(message: dict[str, Any], begun: float | None) -> dict[str, Any]:
    return {
        "id": message.get("id"),
        "role": (message.get("author") or {}).get("role"),
        "content": _words(message),
        "at": message.get("create_time") or begun,
    }
