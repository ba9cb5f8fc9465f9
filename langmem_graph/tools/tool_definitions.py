"""Names, descriptions and arguments of the memory tools, for agents and for MCP."""

from dataclasses import dataclass

from pydantic import BaseModel, Field

from langmem_graph.tools import tool_answers
from langmem_graph.tools.tool_answers import MAX_HITS, MAX_IDS
from langmem_graph.tools.tool_turn_budget import Work


class SearchArguments(BaseModel):
    """Arguments of the searches."""

    query: str = Field(description="What to look for, in plain words.", max_length=2_000)


class MessageArguments(BaseModel):
    """Arguments of `get_conversation`."""

    message_ids: list[str] = Field(description="Message ids as the searches show them.")


class RecordArguments(BaseModel):
    """Arguments of `get_records`."""

    record_ids: list[str] = Field(description="Record ids as search_records shows them.")


class FileArguments(BaseModel):
    """Arguments of `read_file`."""

    name: str = Field(description="index.md, profile.md or topics/NAME.md", max_length=200)


class RememberArguments(BaseModel):
    """Arguments of `remember`."""

    text: str = Field(description="One standalone sentence.", max_length=2_000)


class ForgetArguments(BaseModel):
    """Arguments of `forget`."""

    record_id: str = Field(description="The record to delete for good.", max_length=200)


@dataclass(frozen=True)
class MemoryTool:
    """One tool, as agents and MCP clients are offered it."""

    name: str
    description: str
    arguments: type[BaseModel]
    work: Work


SEARCH_RECORDS = MemoryTool(
    "search_records",
    "Search what is known of this user: facts, events, preferences, instructions, each with its "
    f"sources. At most {MAX_HITS}. Use it when the answer may depend on the user; not for "
    "general knowledge.",
    SearchArguments,
    tool_answers.search_records,
)
SEARCH_CONVERSATION = MemoryTool(
    "search_conversation",
    "Search what this user and the assistant said in earlier conversations, word for word. At most "
    f"{MAX_HITS} quotes with date, speaker and message id. For exact words and evidence.",
    SearchArguments,
    tool_answers.search_conversation,
)
GET_RECORDS = MemoryTool(
    "get_records",
    f"Show records in full, with sources and what they superseded. At most {MAX_IDS} ids.",
    RecordArguments,
    tool_answers.get_records,
)
GET_CONVERSATION = MemoryTool(
    "get_conversation",
    "Read messages of earlier conversations by their ids, each as far as there is room. "
    f"At most {MAX_IDS} ids.",
    MessageArguments,
    tool_answers.get_conversation,
)
READ_FILE = MemoryTool(
    "read_file",
    "Read index.md (what topics there are), profile.md (who the user is) or a topic track. For "
    "broad questions start here.",
    FileArguments,
    tool_answers.read_file,
)
REMEMBER = MemoryTool(
    "remember",
    "Write down one sentence about the user, when they ask you to remember something.",
    RememberArguments,
    tool_answers.remember,
)
FORGET = MemoryTool(
    "forget",
    "Delete one record for good, when the user asks for it.",
    ForgetArguments,
    tool_answers.forget,
)
READING = (SEARCH_RECORDS, SEARCH_CONVERSATION, GET_RECORDS, GET_CONVERSATION, READ_FILE)
"""The tools that change nothing."""
