"""The console script `langmem-graph`, also `python -m langmem_graph`."""

from langmem_graph.cli.commands import main

__all__ = ["main"]
