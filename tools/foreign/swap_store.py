"""A pytest plugin: whatever tests make an `InMemoryStore` of LangGraph get a ChromaStore."""

import langgraph.store.memory
from shim import InMemoryStore

langgraph.store.memory.InMemoryStore = InMemoryStore  # type: ignore[misc,assignment]
