"""ActMemEval: requests that earlier sessions speak against, in LongMemEval's layout.

The layout is taken from public code that reads the file; the file itself could not be read here.
"""

from pathlib import Path

from langmem_graph.bench.data.files import find, only
from langmem_graph.bench.data.haystacks import load_haystacks
from langmem_graph.bench.items import DataSet

_WANTED = "ActMemEval.json of ActMem's authors (arXiv 2603.00026, github.com/xhzhangxx/ActMem)"
_NOTES = (
    "Read as LongMemEval's layout (question, answer, haystack_sessions, answer_session_ids …), "
    "which public code for ActMemEval.json uses; not tested on the original file.",
    "The paper's retrieval accuracy counts facts; its facts are not in that layout, so here gold "
    "are sessions.",
)


def load_actmemeval(data: Path) -> DataSet:
    """A JSON or JSONL file of requests, or a folder with one."""
    files = only(find(data, "actmemeval", "[Aa]ct[Mm]em[Ee]val*.json*", _WANTED))
    conversations = load_haystacks("ActMemEval", files, lambda row: "act")
    cuts = (5, 10, 20)
    title = "ActMemEval"
    return DataSet("actmemeval", title, "session", cuts, "judged", conversations, files, _NOTES)
