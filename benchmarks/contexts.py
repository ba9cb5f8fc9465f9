"""How much of the evidence stands in a context.

    python -m benchmarks.contexts beam --data DIR --tokens 1500

Every question is asked of `recall(mode="fast")`, once with the library's ranking and
once with the embedder's cosine alone. An evidence message counts as quoted where
anything of it is, and by the share of its sentences that stand in the context; no model
is asked.
"""

import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean

from langchain_core.embeddings import Embeddings

from benchmarks import common
from benchmarks.data import LOADERS
from benchmarks.data.items import Conversation
from benchmarks.vectors import cached
from langmem_graph.embeddings.minilm import MiniLMEmbeddings
from langmem_graph.memory import Memory
from langmem_graph.retrieval.quoted_context import as_data
from langmem_graph.settings import ContextSettings, RankingSettings, Settings

SYSTEMS = ("ours", "cosine")
_SENTENCE_ENDS = re.compile(r"(?<=[.!?;:|])\s+|\n+")
_FEWEST = 4  # characters of a sentence that counts
Share = tuple[float, float]
"""Of the evidence's messages, and of their sentences."""
Key = tuple[str, str]
"""A system, and whose words are asked for."""


def main() -> int:
    """Print the shares."""
    made = common.parser(__doc__)
    made.add_argument("dataset", choices=("beam", "chats", "locomo"))
    common.add_data_argument(made)
    made.add_argument("--tokens", type=int, default=1_500)
    made.add_argument("--excerpt", type=int, help="tokens of one quote")
    made.add_argument("--talks", type=int, help="so many conversations")
    options = made.parse_args()
    found = LOADERS[options.dataset](options.data)
    embeddings = cached(MiniLMEmbeddings(), options.output / "vectors.sqlite")
    context = {"max_tokens": options.tokens}
    context |= {"excerpt_tokens": options.excerpt} if options.excerpt else {}
    settings = ContextSettings.model_validate(context)
    shares: dict[Key, list[Share]] = defaultdict(list)
    for talk in found.conversations[: options.talks]:
        for key, share in shares_of(talk, embeddings, settings):
            shares[key].append(share)
    embeddings.close()
    print(report(shares, options.tokens))
    return 0


def shares_of(
    talk: Conversation, embeddings: Embeddings, context: ContextSettings
) -> Iterator[tuple[Key, Share]]:
    """Of each question and system the share of the evidence, by whose words it is."""
    said = {one["id"]: one for session in talk.sessions for one in session.messages}
    with tempfile.TemporaryDirectory() as folder:
        with Memory(folder, embeddings=embeddings) as memory:
            for session in talk.sessions:
                memory.user("u").add(session.messages, session_id=session.session_id)
        for system in SYSTEMS:
            method = "hybrid" if system == "ours" else "dense"
            ranking = RankingSettings.model_validate({"method": method})
            settings = Settings(context=context, ranking=ranking)
            with Memory(folder, embeddings=embeddings, settings=settings) as memory:
                for question in talk.questions:
                    written = memory.user("u").recall(question.text, mode="fast")
                    quoted = {hit.message_id for hit in written.evidence}
                    roles = defaultdict[str, list[Share]](list)
                    for own in question.gold:
                        share = share_of(said[own]["content"], written.context)
                        roles[said[own]["role"]].append((own in quoted, share))
                    for role, values in roles.items():
                        yield (system, role), _means(values)


def _means(shares: Sequence[Share]) -> Share:
    return fmean(one for one, _ in shares), fmean(share for _, share in shares)


def share_of(text: str, context: str) -> float:
    """The share of a text's sentences, by their length, that stand in a context."""
    sentences = [part.strip() for part in _SENTENCE_ENDS.split(text)]
    counted = [part for part in sentences if len(part) >= _FEWEST] or [text.strip()]
    standing = [part for part in counted if as_data(part)[1:-1] in context]
    return sum(map(len, standing)) / sum(map(len, counted))


def report(shares: dict[Key, list[Share]], tokens: int) -> str:
    """The means as a table, with how many questions each is of."""
    roles = sorted({role for _, role in shares}, reverse=True)
    rows = []
    for role in roles:
        means = (_means(shares[system, role]) for system in SYSTEMS)
        cells = [f"{share:.2f}" for both in means for share in both]
        rows.append([role, str(len(shares[SYSTEMS[0], role])), *cells])
    title = f"Share of the evidence in a context of {tokens:,} tokens:"
    header = ["whose words", "questions"]
    header += [f"{name}, {what}" for name in SYSTEMS for what in ("quoted", "in full")]
    return f"{title}\n\n{common.table(header, rows)}"


if __name__ == "__main__":
    sys.exit(main())
