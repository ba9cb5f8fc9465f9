"""Memory as LangChain tools, for agents that decide themselves when to search it."""

from langmem_graph.tools.memory_tools import create_memory_tools

__all__ = ["create_memory_tools"]
