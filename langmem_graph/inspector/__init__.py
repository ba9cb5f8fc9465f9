"""The inspector: pages on which people look into a memory, and put it right (extra
`inspect`).
"""

from langmem_graph.inspector.app import create_inspector

__all__ = ["create_inspector"]
