"""How many examples hypothesis tries."""

import os


def examples(full: int) -> int:
    """A third of so many, at least ten; all of them in `make stress`, which sets the variable."""
    return full if os.environ.get("LANGMEM_GRAPH_ALL_EXAMPLES") else max(10, full // 3)
