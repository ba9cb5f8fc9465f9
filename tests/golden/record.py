"""Writes the golden files anew: `python -m tests.golden.record [name …]`."""

import json
import sys
import tempfile
import warnings
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

from langmem_graph import TokenCountWarning
from langmem_graph.extraction import batch_view, reconcile_records
from langmem_graph.storage import records_by_hand
from tests.golden.conversations import conversations
from tests.golden.support import Talk

FILES = Path(__file__).parent / "files"
SYSTEM_PROMPTS, SCHEMAS = FILES / "system_prompts.json", FILES / "schemas.json"


def file_of(name: str) -> Path:
    """Where a conversation is written down."""
    return FILES / f"{name}.json"


def as_text(value: Any) -> str:
    """The form of every golden file."""
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def run(name: str, path: Path) -> Talk:
    """Have the conversation in an empty directory; aliases, and ids of what is written
    by hand, are counted instead of drawn at random.
    """
    fixed: Any = {"draw_first_alias": lambda: 1}
    ids = count(1)
    with (
        patch.object(records_by_hand.secrets, "token_hex", lambda n: f"{next(ids):x}"),
        patch.multiple(batch_view, **fixed),
        patch.multiple(reconcile_records, **fixed),
    ):
        talk = conversations[name](path)
        talk.close()
    return talk


def texts_of(talk: Talk) -> tuple[dict[str, Any], dict[str, Any]]:
    """The system prompts and the schemas that the model was given."""
    if talk.model is None:
        return {}, {}
    systems = {label: text.split("\n") for label, text in talk.model.systems.items()}  # type: ignore[attr-defined]
    return systems, dict(talk.model.schemas)  # type: ignore[attr-defined]


def main(names: list[str]) -> None:
    """Record the named conversations, or all."""
    warnings.simplefilter("ignore", TokenCountWarning)
    shared = [SYSTEM_PROMPTS, SCHEMAS]
    kept = [
        json.loads(file.read_text()) if names and file.exists() else {}
        for file in shared
    ]
    for name in names or conversations:
        with tempfile.TemporaryDirectory() as folder:
            talk = run(name, Path(folder))
        file_of(name).write_text(as_text(talk.golden()), encoding="utf-8")
        for old, new in zip(kept, texts_of(talk), strict=True):
            old.update(new)
    for file, texts in zip(shared, kept, strict=True):
        file.write_text(as_text(dict(sorted(texts.items()))), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
