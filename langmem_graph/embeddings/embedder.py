"""Wraps any LangChain embedder: its name, checked unit vectors, and pieces of long
texts.
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from langmem_graph.embeddings.cosine_scale import PLAIN, CosineScale, measured_scale
from langmem_graph.errors import EmbeddingError, InvalidInputError, ModelFileError
from langmem_graph.server_urls import (
    as_shown,
    check_address,
    holds_password,
    may_hold_password,
)
from langmem_graph.threads import is_interrupted, result_of, start_thread

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

T = TypeVar("T")
_log = logging.getLogger(__name__)
Vectors = NDArray[np.float32]
Span = tuple[int, int]
# for embedders that do not say where to split: about 250 tokens of English
PIECE_CHARS = 1_000
# calls without an answer since the last one; then the embedder is left alone
MOST_SILENT = 2
NAME_FIELDS = ("model_name", "model", "model_id", "repo_id", "deployment")


class Embedder:
    """Wraps LangChain `Embeddings`; its vectors are finite, of unit length and of one
    size.
    """

    def __init__(self, embeddings: "Embeddings") -> None:
        self.embeddings = embeddings
        self.name = _name(embeddings)
        self.seconds = 20.0  # the time limit of one call
        self._silent: list[tuple[Future[Any], float]] = []
        """Calls without an answer that nobody waits for, and from when that counts."""
        self._rests_until = 0.0
        self._missing: ModelFileError | None = None  # why the model could not be loaded
        self.size: int | None = None
        """The size that vectors must have; None is any."""
        self._scale: CosineScale | None = getattr(embeddings, "cosine_scale", None)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of shape (texts, size).

        Raises:
            EmbeddingError: the embedder raised an error, its answer is unusable, or it
                gave none.
        """
        answer = self._ask(lambda: self.embeddings.embed_documents(list(texts)))
        return self._checked(answer, len(texts))

    def embed_query(self, text: str) -> Vectors:
        """The unit vector of a query, of shape (size,)."""
        answer = self._ask(lambda: self.embeddings.embed_query(text))
        vector: Vectors = self._checked([answer], 1)[0]
        return vector

    @property
    def scale(self) -> CosineScale:
        """What this embedder's cosines say.

        An embedder may say so itself by `cosine_scale`, as MiniLM does; of others it is
        measured once, by one call. Where that fails cosines are taken as they are, and
        it is tried again.
        """
        if self._scale is None:
            try:
                self._scale = measured_scale(self.embed)
            except EmbeddingError as error:
                _log.warning("the scale of cosines could not be measured: %s", error)
                return PLAIN
        return self._scale

    def _ask(self, call: Callable[[], T]) -> T:
        """The embedder's answer, from a thread that is abandoned when the time is over,
        or when nobody waits for it any more.

        After two calls without an answer the embedder is left alone, then tried by one
        call; so it is after one where the model's files are missing, which the log says
        once.
        """
        if self._missing is not None and monotonic() < self._rests_until:
            raise ModelFileError(str(self._missing)) from self._missing.__cause__
        now = monotonic()
        self._silent = [one for one in self._silent if one[0].running()]
        silent = sum(since <= now for _, since in self._silent)
        if silent >= MOST_SILENT and now < self._rests_until:
            raise EmbeddingError(
                f"{self.name} gave no answers and is not asked for a while."
            )
        self._rests_until = now + 3 * self.seconds
        answer = start_thread(call)
        try:
            result = result_of(answer, self.seconds)
        except ModelFileError as error:
            if self._missing is None:
                _log.warning("%s", error)
            self._missing = error
            raise
        except Exception as error:  # noqa: BLE001  # every provider raises errors of its own
            why, cause = as_shown(error)
            text = f"{self.name} failed: {why}"
            if answer.running():
                text = f"{self.name} gave no answer within {self.seconds:g} seconds."
                silent_from = now
                if is_interrupted():
                    text = f"{self.name} had not answered when the call was given up."
                    silent_from += self.seconds
                self._silent.append((answer, silent_from))
            raise EmbeddingError(text) from cause
        self._silent.clear()
        self._missing = None
        return result

    def spans(self, text: str, limit: int) -> list[Span]:
        """Where to split a text so that every piece fits the embedder's window.

        An embedder may say so itself by a method `split`, as MiniLM does.
        """
        split: Callable[[str], list[Span]] | None = getattr(
            self.embeddings, "split", None
        )
        if split is not None:
            return self._ask(lambda: split(text)[:limit] or [(0, len(text))])
        return _split_at_spaces(text)[:limit]

    def _checked(self, answer: object, expected: int) -> Vectors:
        try:
            with np.errstate(over="ignore"):  # infinite then, which is refused below
                vectors = np.asarray(answer, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise EmbeddingError(
                f"{self.name} returned no rows of numbers: {error}"
            ) from error
        size = vectors.shape[1] if vectors.ndim == 2 else 0
        if not size or vectors.shape[0] != expected or size != (self.size or size):
            said = f"; index['dims'] says {self.size}" if self.size else ""
            raise EmbeddingError(
                f"{self.name} returned shape {vectors.shape} for {expected} "
                f"texts{said}."
            )
        with np.errstate(over="ignore"):
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.all(np.isfinite(lengths)) or not np.all(lengths > 0):
            raise EmbeddingError(
                f"{self.name} returned a zero, infinite or not-a-number vector."
            )
        unit: Vectors = vectors / lengths
        return unit


def _name(embeddings: "Embeddings") -> str:
    """The class and model of an embedder, which are recorded with its vectors."""
    named = (getattr(embeddings, field, None) for field in NAME_FIELDS)
    texts = (value for value in named if value and isinstance(value, str))
    # a server's URL may be the name of its model
    model = next((text for text in texts if not holds_password(text)), "")
    kind = type(embeddings).__name__
    return f"{kind}:{model}" if model else kind


def _split_at_spaces(text: str) -> list[Span]:
    spans = []
    start = 0
    while len(text) - start > PIECE_CHARS:
        space = text.rfind(" ", start + PIECE_CHARS // 2, start + PIECE_CHARS)
        end = space + 1 if space > 0 else start + PIECE_CHARS
        spans.append((start, end))
        start = end
    return [*spans, (start, len(text))]


def load_embedder(embeddings: "Embeddings | str | None") -> Embedder:
    """The embedder for `Memory(embeddings=...)`.

    Args:
        embeddings: None is MiniLM on this machine; a string is what
            `embeddings_by_name` takes; an object is used as it is.

    Raises:
        InvalidInputError: it is none of these, or the named embedder cannot be created.
    """
    if embeddings is None:
        from langmem_graph.embeddings.minilm import MiniLMEmbeddings

        return Embedder(MiniLMEmbeddings())
    from langchain_core.embeddings import Embeddings

    given = (
        embeddings_by_name(embeddings) if isinstance(embeddings, str) else embeddings
    )
    if not isinstance(given, Embeddings):
        raise InvalidInputError(
            "embeddings must be a LangChain Embeddings object, a name or None, not "
            f"a {type(given).__name__}."
        )
    return Embedder(given)


def embeddings_by_name(name: str) -> "Embeddings":
    """The embedder of a name.

    `"hash"` is the test embedder, `"multilingual"` and `"onnx:…"` are models on ONNX
    Runtime; of others `langchain.embeddings.init_embeddings` makes one.

    Raises:
        InvalidInputError: there is none of this name.
    """
    if holds_password(name):  # it would be recorded with the vectors, too
        raise InvalidInputError(
            "embeddings must be a name such as 'openai:text-embedding-3-small'; this "
            "one reads as a URL and is not shown, as it may hold a password."
        )
    if name == "hash":
        from langmem_graph.embeddings.hash_embeddings import HashEmbeddings

        return HashEmbeddings()
    if name == "multilingual" or name.startswith("onnx:"):
        from langmem_graph.embeddings.onnx_model import named_model

        return named_model(name)
    from langchain.embeddings import init_embeddings

    try:
        made = init_embeddings(name)
        check_address(made)
        return made
    except Exception as error:  # noqa: BLE001  # every provider raises errors of its own
        ways = (
            "Give 'multilingual', 'onnx:owner/name', 'provider:model' such as "
            "'openai:text-embedding-3-small', or a LangChain Embeddings object."
        )
        kind = type(error).__name__
        if may_hold_password(name):  # not refused before: names of Vertex have an @ too
            raise InvalidInputError(
                f"No embedder of the name that is given: {kind}. {ways}"
            ) from None
        why, cause = as_shown(error)
        raise InvalidInputError(f"No embedder {name!r}: {why} {ways}") from cause
