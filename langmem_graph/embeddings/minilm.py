"""The default embedder: all-MiniLM-L6-v2 on onnxruntime, without torch, key or account."""

import os
import threading
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from langmem_graph.embeddings.weights import ModelFiles, find_model_files

MAX_TOKENS = 256  # the model's published window, two of them its start and end marks
BATCH = 32
PROGRAM = Path(__file__).with_name("minilm.onnx")  # written by tools/minilm_graph.py
WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"


class MiniLMEmbeddings(Embeddings):
    """all-MiniLM-L6-v2 (English, 384 numbers, unit length), loaded at the first text.

    Args:
        threads: processor threads; default `$OMP_NUM_THREADS`, else 1, which is fastest per
            text wherever anything else runs on the machine.
    """

    model_name = "all-MiniLM-L6-v2"

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or int(os.environ.get("OMP_NUM_THREADS") or 1)
        self._loading = threading.Lock()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One unit vector of 384 numbers per text; words past 256 tokens are not read."""
        vectors: list[list[float]] = [[]] * len(texts)
        encodings = self._encode(texts)
        shortest_first = sorted(range(len(texts)), key=lambda i: len(encodings[i].ids))
        for start in range(0, len(texts), BATCH):
            batch = shortest_first[start : start + BATCH]
            embedded = self._run([encodings[i].ids for i in batch]).tolist()
            for place, vector in zip(batch, embedded, strict=True):
                vectors[place] = vector
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """The unit vector of one text."""
        return self.embed_documents([text])[0]

    def split(self, text: str) -> list[tuple[int, int]]:
        """Character spans of the pieces that each fit the model's window, in order."""
        offsets = self._pieces_tokenizer.encode(text, add_special_tokens=False).offsets
        room = MAX_TOKENS - 2
        starts = [offsets[i][0] for i in range(0, len(offsets), room)] or [0]
        starts[0] = 0
        return list(zip(starts, [*starts[1:], len(text)], strict=True))

    def _encode(self, texts: list[str]) -> Any:
        return self._tokenizer.encode_batch_fast(texts)

    def _run(self, rows: list[list[int]]) -> NDArray[np.float32]:
        """Mean of the token vectors that are no padding, at unit length."""
        width = max(map(len, rows))
        ids = np.array([row + [0] * (width - len(row)) for row in rows], dtype=np.int64)
        mask = (np.arange(width) < np.array([[len(row)] for row in rows])).astype(np.int64)
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = self._session.run(None, inputs)[0]
        summed = (hidden * mask[:, :, None]).sum(axis=1, dtype=np.float32)
        unit: NDArray[np.float32] = summed / np.linalg.norm(summed, axis=1, keepdims=True)
        return unit

    @property
    def _session(self) -> Any:
        with self._loading:
            return self._loaded_session

    @cached_property
    def _loaded_session(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry(WEIGHTS_FOLDER, str(self._files.weights.parent))
        return onnxruntime.InferenceSession(
            PROGRAM.read_bytes(), options, providers=["CPUExecutionProvider"]
        )

    @cached_property
    def _files(self) -> ModelFiles:
        return find_model_files()

    @cached_property
    def _tokenizer(self) -> Any:
        tokenizer = self._load_tokenizer()
        tokenizer.enable_truncation(MAX_TOKENS)
        return tokenizer

    @cached_property
    def _pieces_tokenizer(self) -> Any:
        tokenizer = self._load_tokenizer()
        tokenizer.no_truncation()
        return tokenizer

    def _load_tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self._files.tokenizer))
        tokenizer.no_padding()
        return tokenizer
