"""What every model on ONNX Runtime needs: a session, batches of texts of one length,
pooling, and the pieces of a long text.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

BATCH = 32
Tokens = NDArray[np.int64]
Floats = NDArray[np.float32]
Pooling = Literal["mean", "cls", "max", "last"]
WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"


def processor_threads(threads: int | None) -> int:
    """As many as were asked for; else `$OMP_NUM_THREADS`, else 1."""
    return threads or int(os.environ.get("OMP_NUM_THREADS") or 1)


def open_session(
    graph: str | bytes, threads: int, weights_folder: Path | None = None
) -> Any:
    """A session of ONNX Runtime on the processor.

    Args:
        graph: a file's name, or what stands in it.
        threads: processor threads.
        weights_folder: where the graph's weights lie, if not beside its file.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    if weights_folder is not None:
        options.add_session_config_entry(WEIGHTS_FOLDER, str(weights_folder))
    providers = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(graph, options, providers=providers)


def load_tokenizer(file: Path) -> Any:
    """The tokenizer of a `tokenizer.json`, which neither pads nor truncates."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def in_batches(
    rows: Sequence[list[int]], run: Callable[[list[list[int]]], Floats]
) -> list[list[float]]:
    """What `run` makes of each row of tokens, in their order; rows of about one length
    are run together, since they need little padding.
    """
    vectors: list[list[float]] = [[]] * len(rows)
    shortest_first = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    for start in range(0, len(rows), BATCH):
        batch = shortest_first[start : start + BATCH]
        embedded = run([rows[i] for i in batch]).tolist()
        for place, vector in zip(batch, embedded, strict=True):
            vectors[place] = vector
    return vectors


def padded(rows: Sequence[list[int]], pad: int) -> tuple[Tokens, Tokens]:
    """The rows filled up on the right to one width, and a mask: 1 is a token."""
    width = max(map(len, rows))
    filled = [row + [pad] * (width - len(row)) for row in rows]
    lengths = np.array([[len(row)] for row in rows])
    mask = (np.arange(width) < lengths).astype(np.int64)
    return np.array(filled, dtype=np.int64), mask


def pooled(kind: Pooling, hidden: Floats, mask: Tokens) -> Floats:
    """One vector for each row of token vectors; what is masked does not count."""
    if kind == "cls":
        first: Floats = hidden[:, 0]
        return first
    if kind == "last":
        last: Floats = hidden[np.arange(len(hidden)), mask.sum(axis=1) - 1]
        return last
    if kind == "max":
        most: Floats = np.where(mask[:, :, None] > 0, hidden, -np.inf).max(axis=1)
        return most
    mean: Floats = token_sum(hidden, mask) / mask.sum(axis=1, keepdims=True)
    return mean.astype(np.float32)


def token_sum(hidden: Floats, mask: Tokens) -> Floats:
    """The sum of each row's token vectors."""
    summed: Floats = (hidden * mask[:, :, None]).sum(axis=1, dtype=np.float32)
    return summed


def unit(vectors: Floats) -> Floats:
    """The vectors at unit length."""
    scaled: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled


def piece_spans(tokenizer: Any, text: str, room: int) -> list[tuple[int, int]]:
    """Character spans of pieces of at most `room` tokens, in order; together they are
    the text.
    """
    offsets = tokenizer.encode(text, add_special_tokens=False).offsets
    starts = [offsets[i][0] for i in range(0, len(offsets), room)] or [0]
    starts[0] = 0
    starts = sorted(set(starts))  # a character may have several tokens
    return list(zip(starts, [*starts[1:], len(text)], strict=True))
