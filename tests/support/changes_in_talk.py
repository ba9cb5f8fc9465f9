"""A record, and what a later message does to it; the model's answers are scripted."""

from typing import Any

from langmem_graph.memory import Memory
from tests.support.models import AnswersBySchema
from tests.support.writing import change, memories, record_alias

HOME = {"text": "The user lives in Porto.", "sources": ["m1"], "attribute": "home"}
BERLIN = {"text": "The user lives in Berlin.", "sources": ["m1"], "attribute": "home"}


class Talk:
    """Two talks with one user: the first leaves a record, the second changes it.

    Args:
        memory: a memory whose model is scripted.
        model: that model.
        user_id: a user of whom the memory knows nothing.
        first: the memory of the first talk.
        said: its message.
        at: when it was said.
        fields: other fields of that message.
    """

    def __init__(
        self,
        memory: Memory,
        model: AnswersBySchema,
        user_id: str,
        first: dict[str, Any] | None = None,
        said: str = "I live in Porto.",
        at: str = "2025-01-01T10:00",
        **fields: Any,
    ) -> None:
        self.first = HOME if first is None else first
        self.memory, self.model = memory, model
        self.model.answers["Extraction"] = memories(self.first)
        self.ana: Any = memory.user(user_id)
        self.say(said, id="u1", at=at, session="s1", **fields)
        self.ana.flush()
        (row,) = self.ana.export_records()
        self.old: str = row["record_id"]

    def say(self, text: str, *, session: str = "s2", **fields: Any) -> None:
        message = {"role": "user", "content": text, **fields}
        report = self.ana.add([message], session_id=session)
        assert report.stored, report

    def flush(
        self, relation: str, quote: str, *new: dict[str, Any], **fields: Any
    ) -> Any:
        """Extract what was said: these memories, and one change of the record."""

        def extract(question: str) -> dict[str, Any]:
            alias = record_alias(question, self.first["text"])
            return memories(*new, changes=[change(alias, relation, quote, **fields)])

        self.model.answers["Extraction"] = extract
        return self.ana.flush()

    def tell(
        self,
        text: str,
        relation: str,
        *new: dict[str, Any],
        at: str = "2025-06-01T10:00",
        quote: str = "",
        **fields: Any,
    ) -> Any:
        """Say it as `u2`, and extract it; the change quotes it whole unless a quote is given."""
        self.say(text, id="u2", at=at)
        return self.flush(relation, quote or text, *new, **fields)

    @property
    def record(self) -> Any:
        """The older record as it is now."""
        return self.ana.get_records(self.old)[0]

    @property
    def label(self) -> Any:
        """The one change of the older record."""
        (made,) = self.ana.changes(self.old)
        return made

    def holding(self, at: str | None = None) -> list[str]:
        """The texts that hold now or at a time, all of which the search finds."""
        rows = self.ana.export_records(as_of=at) if at else self.ana.export_records()
        found = self.ana.search_records("user", k=20, **({"as_of": at} if at else {}))
        texts = sorted(row["text"] for row in rows)
        assert set(texts) <= {hit.text for hit in found}
        return texts

    def ops(self) -> list[str]:
        """What happened to the older record."""
        return [
            one.op for one in self.ana.history(self.old) if one.record_id == self.old
        ]
