"""Any sentence-transformers model that has ONNX files, without torch.

Its own files say how it is used (`model_card`); they come from a directory or from the
Hugging Face hub (`model_files`).
"""

import threading
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings

from langmem_graph.embeddings.model_card import padding_token, read_card
from langmem_graph.embeddings.model_files import (
    ModelFiles,
    chosen_graph,
    fetched_graph,
    is_directory,
)
from langmem_graph.embeddings.running import (
    Floats,
    in_batches,
    load_tokenizer,
    open_session,
    padded,
    piece_spans,
    pooled,
    processor_threads,
    unit,
)
from langmem_graph.errors import InvalidInputError, ModelFileError

PREFIX = "onnx:"
MULTILINGUAL = "intfloat/multilingual-e5-small"
MULTILINGUAL_REVISION = "614241f622f53c4eeff9890bdc4f31cfecc418b3"
TOKENIZER = "tokenizer.json"
_TYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_INPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
_TOKEN_VECTORS = ("last_hidden_state", "token_embeddings")
_SENTENCE_VECTOR = "sentence_embedding"


class OnnxEmbeddings(Embeddings):
    """A sentence-transformers model on ONNX Runtime, loaded at the first text.

    `Memory(path, embeddings="onnx:OWNER/NAME")` uses it, also with
    `"onnx:OWNER/NAME@REVISION"` and `"onnx:/path/to/model"`.

    Args:
        repository: `owner/name` on the Hugging Face hub, or a directory with the same
            files.
        revision: a branch, tag or commit. None is the main branch, as it is at the
            first use.
        file: the ONNX file to run. None prefers one with weights of 8 bits
            (`onnx/model_quantized.onnx`), then `onnx/model.onnx`.
        threads: processor threads; default `$OMP_NUM_THREADS`, else 1.

    Raises:
        InvalidInputError: `repository` is neither a directory nor the name of a
            repository.
    """

    def __init__(
        self,
        repository: str,
        *,
        revision: str | None = None,
        file: str | None = None,
        threads: int | None = None,
    ) -> None:
        self._files = ModelFiles(repository, revision)
        self._file = file
        self._threads = processor_threads(threads)
        self._loading = threading.Lock()
        self.model_name = " ".join(filter(None, [self._files.name, file]))

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector per text, with the model's prefix for documents; tokens beyond its
        window are ignored.
        """
        model = self._model
        return model.embed([model.card.document_prefix + text for text in texts])

    def embed_query(self, text: str) -> list[float]:
        """The vector of a query, with the model's prefix for queries."""
        model = self._model
        return model.embed([model.card.query_prefix + text])[0]

    def split(self, text: str) -> list[tuple[int, int]]:
        """Character spans of the pieces that each fit the model's window with the
        prefix, in order.
        """
        return self._model.split(text)

    @property
    def _model(self) -> "_LoadedModel":
        with self._loading:
            return self._loaded_model

    @cached_property
    def _loaded_model(self) -> "_LoadedModel":
        return _LoadedModel(self._files, self._file, self._threads)


class _LoadedModel:
    """A tokenizer and a session that are ready."""

    def __init__(self, files: ModelFiles, file: str | None, threads: int) -> None:
        graph = chosen_graph(files, file)
        self.card = read_card(files)
        self._load_tokenizers(files, _tokenizer_file(files, graph))
        self._session = _opened(fetched_graph(files, graph), threads)
        self._inputs = _inputs_of(self._session, files.name)
        self._output = _output_of(self._session)
        if self.card.refused and self._output != _SENTENCE_VECTOR:
            raise ModelFileError(
                f"{files.name} uses {self.card.refused}, which is not supported. Give "
                "another model, or use this one by "
                "embeddings='huggingface:…' (with torch)."
            )

    def _load_tokenizers(self, files: ModelFiles, file: Path) -> None:
        try:
            self._tokenizer, self._whole = load_tokenizer(file), load_tokenizer(file)
        except Exception as error:  # tokenizers raises bare exceptions
            raise ModelFileError(
                f"{file} is no tokenizer that can be used: {error}. Delete it, or give "
                "another model."
            ) from error
        self._tokenizer.enable_truncation(self.card.window)
        self._pad = padding_token(files, self._tokenizer)

    def embed(self, texts: list[str]) -> list[list[float]]:
        """One vector per text, as it is, without a prefix."""
        encodings = self._tokenizer.encode_batch_fast(texts)
        # a tokenizer without marks of begin and end makes no token of an empty text
        return in_batches([one.ids or [self._pad] for one in encodings], self._run)

    def split(self, text: str) -> list[tuple[int, int]]:
        """Spans of pieces that fit the window with the longer prefix."""
        prefixes = (self.card.query_prefix, self.card.document_prefix)
        taken = max(len(self._whole.encode(prefix).ids) for prefix in prefixes)
        return piece_spans(self._whole, text, max(1, self.card.window - taken))

    def _run(self, rows: list[list[int]]) -> Floats:
        ids, mask = padded(rows, self._pad)
        values = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(ids),
            "position_ids": np.tile(np.arange(ids.shape[1]), (len(ids), 1)),
        }
        inputs = {
            name: values[name].astype(kind) for name, kind in self._inputs.items()
        }
        found = self._session.run([self._output], inputs)[0].astype(np.float32)
        vectors = found if found.ndim == 2 else pooled(self.card.pooling, found, mask)
        return unit(vectors) if self.card.to_unit else vectors


def _tokenizer_file(files: ModelFiles, graph: str) -> Path:
    """The model's `tokenizer.json`: its own, else the one beside its ONNX file."""
    beside = graph.rpartition("/")[0] + f"/{TOKENIZER}"
    for name in (TOKENIZER, beside):
        if name in files.names:
            return files.path(name)
    raise ModelFileError(
        f"{files.name} has no {TOKENIZER}. Save one with transformers "
        "(AutoTokenizer.from_pretrained(…).save_pretrained(…)), or give another model."
    )


def _opened(file: Path, threads: int) -> Any:
    try:
        return open_session(str(file), threads)
    except Exception as error:  # onnxruntime has an exception for each of its states
        raise ModelFileError(
            f"ONNX Runtime cannot run {file}: {error}. Delete it, or choose another "
            "file with OnnxEmbeddings(…, file=…)."
        ) from error


def _inputs_of(session: Any, model: str) -> dict[str, Any]:
    """The inputs that the graph declares, with their types of numbers."""
    declared = {one.name: one.type for one in session.get_inputs()}
    for name, kind in declared.items():
        if name not in _INPUTS or kind not in _TYPES:
            raise ModelFileError(
                f"{model} asks for an input {name} of {kind}, which no text gives. "
                "Choose another file with OnnxEmbeddings(…, file=…), or another model."
            )
    return {name: _TYPES[kind] for name, kind in declared.items()}


def _output_of(session: Any) -> str:
    """The output with the text's vector; else the one with its tokens' vectors."""
    names: list[str] = [one.name for one in session.get_outputs()]
    wanted = (_SENTENCE_VECTOR, *_TOKEN_VECTORS)
    return next((name for name in wanted if name in names), names[0])


def named_model(name: str) -> OnnxEmbeddings:
    """The model of `"multilingual"`, `"onnx:REPOSITORY"` or
    `"onnx:REPOSITORY@REVISION"`.

    Raises:
        InvalidInputError: no repository is named.
    """
    if name == "multilingual":
        return OnnxEmbeddings(MULTILINGUAL, revision=MULTILINGUAL_REVISION)
    given = name.removeprefix(PREFIX)
    repository, at, revision = given.rpartition("@")
    if not at or is_directory(given):
        return OnnxEmbeddings(given)
    if not revision:
        raise InvalidInputError(f"{name!r} names no revision after its '@'.")
    return OnnxEmbeddings(repository, revision=revision)
