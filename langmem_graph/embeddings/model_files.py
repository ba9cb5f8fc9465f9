"""The files of an embedding model: a directory, or a repository of the Hugging Face hub
of which the files that are asked for are kept in the cache.

What a revision's name meant when it was first asked for is kept beside the files, so
that later the hub is not asked again, and all files are of one commit.
"""

import json
import os
import re
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from langmem_graph.embeddings import hub
from langmem_graph.errors import InvalidInputError, ModelFileError, quoted
from langmem_graph.server_urls import shown_url

T = TypeVar("T")
_LISTING = ".listing.json"
_NAME = re.compile(r"(?=.{1,96}$)[\w.-]+(/[\w.-]+)?")
"""The hub has no longer one."""
_REVISION = re.compile(r"\w[\w./-]*")
_NOT_FOUND = ("RepositoryNotFoundError", "GatedRepoError", "DisabledRepoError")
# What runs on a processor with weights of 8 bits, in this order: the same file on every
# machine, so that vectors made on two of them fit together.
QUANTISED = (
    "model_quantized.onnx",
    "model_int8.onnx",
    "model_quint8_avx2.onnx",
    "model_qint8_avx512_vnni.onnx",
    "model_qint8_avx512.onnx",
    "model_qint8_arm64.onnx",
    "model_uint8.onnx",
)
FULL = "model.onnx"
FOLDERS = ("onnx/", "")


class ModelFiles:
    """The files of one model.

    Args:
        repository: a directory, or `owner/name` on the hub.
        revision: a branch, tag or commit; None is the hub's main branch.

    Raises:
        InvalidInputError: it can be neither, or a directory is given a revision.
    """

    def __init__(self, repository: str, revision: str | None = None) -> None:
        if not isinstance(repository, str | Path):
            raise InvalidInputError(
                f"No model {quoted(repository)}: give 'owner/name' of the Hugging "
                "Face hub, or a directory's path."
            )
        self.repository = str(repository)
        self.revision = revision
        self.is_local = is_directory(self.repository)
        self.folder = (
            Path(repository).expanduser().resolve() if self.is_local else self._cache()
        )
        if self.is_local and revision is not None:
            raise InvalidInputError(
                f"{repository} is a directory, which has no revision {revision!r}. "
                "Leave the revision out."
            )

    def _cache(self) -> Path:
        named = _NAME.fullmatch(self.repository)
        revision = self.revision or "main"
        if not named or not _REVISION.fullmatch(revision) or ".." in revision:
            given = f"{self.repository}{f'@{self.revision}' * bool(self.revision)}"
            raise InvalidInputError(
                f"No model {quoted(given)}: it is no "
                "directory, and no repository. Give 'owner/name' or "
                "'owner/name@revision' of the Hugging Face hub, or a directory's path."
            )
        folder = f"{self.repository}@{revision}".replace("/", "--")
        return hub.cache_directory() / "onnx" / folder

    @property
    def name(self) -> str:
        """What tells this model from others."""
        if self.is_local:
            return str(self.folder)
        return (
            f"{self.repository}@{self.revision}" if self.revision else self.repository
        )

    @cached_property
    def names(self) -> list[str]:
        """The names of all its files, with `/` between their folders."""
        if not self.is_local:
            return [name for name in self._listing["files"] if isinstance(name, str)]
        files = (file for file in self.folder.rglob("*") if file.is_file())
        return sorted(file.relative_to(self.folder).as_posix() for file in files)

    def path(self, name: str) -> Path:
        """Where a file lies; it is downloaded if it is missing.

        Raises:
            ModelFileError: the model has no such file, or it cannot be downloaded.
        """
        file = self.folder / name
        if name not in self.names:
            raise ModelFileError(f"{self.name} has no file {name}.")
        if not self.is_local and not file.exists():
            self._download(name)
        return file

    def content(self, name: str, kind: type[T]) -> T | None:
        """What stands in a JSON file; None where the model has no such file.

        Raises:
            ModelFileError: it is no JSON, or not of this kind.
        """
        if name not in self.names:
            return None
        try:
            found = json.loads(self.path(name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise self.damaged(name, str(error)) from error
        if not isinstance(found, kind):
            raise self.damaged(name, f"it holds no {kind.__name__}")
        return found

    def damaged(self, name: str, why: str) -> ModelFileError:
        """The error that a file which cannot be used raises."""
        return ModelFileError(
            f"{self.folder / name} cannot be read: {why}. Delete it, or give another "
            "model."
        )

    @cached_property
    def _listing(self) -> dict[str, Any]:
        """The commit, and the names of its files; as they were at the first time."""
        file = self.folder / _LISTING
        try:
            kept = json.loads(file.read_text(encoding="utf-8"))
            return {"commit": str(kept["commit"]), "files": list(kept["files"])}
        except (OSError, ValueError, KeyError, TypeError):
            return self._ask_for_listing(hub.made_folder(self.folder) / _LISTING)

    def _ask_for_listing(self, file: Path) -> dict[str, Any]:
        try:
            hub.reach_hub()
            commit, found = hub.repository_files(self.repository, self.revision)
        except ModelFileError:
            raise
        # the hub client raises its own, requests' and httpx's errors
        except Exception as error:
            raise self._not_fetched(error) from error
        names = [name for name in found if _is_within(PurePosixPath(name))]
        listing = {"commit": commit, "files": names}
        whole = file.with_suffix(".new")
        whole.write_text(json.dumps(listing), encoding="utf-8")
        whole.replace(file)
        return listing

    def _download(self, name: str) -> None:
        try:
            hub.reach_hub()
            commit = self._listing["commit"]
            hub.fetch_file(self.repository, commit, name, self.folder)
        except ModelFileError:
            raise
        except Exception as error:
            raise self._not_fetched(error) from error

    def _not_fetched(self, error: Exception) -> ModelFileError:
        from huggingface_hub import constants

        kind = type(error).__name__
        model = self.repository
        address = shown_url(constants.ENDPOINT)
        if kind in _NOT_FOUND:
            return ModelFileError(
                f"{address} has no model {model}, or shows it only to those "
                "with a token: check the name, or set HF_TOKEN."
            )
        if kind == "RevisionNotFoundError":
            return ModelFileError(
                f"{model} has no revision {self.revision or 'main'} on "
                f"{address}: give another one, or none."
            )
        return ModelFileError(
            f"The embedding model {self.name} is not in {self.folder}, and "
            f"{address} gave no answer that can be used ({kind}): try again "
            "with a network, or give a directory that holds the model; messages are "
            "stored meanwhile, and found by their words alone."
        )


def is_directory(path: str) -> bool:
    """Whether a directory is there; False also for what can name none."""
    return os.path.isdir(os.path.expanduser(path))  # noqa: PTH111, PTH112  # Path raises


def _is_within(file: PurePosixPath) -> bool:
    """Whether a file's name leads nowhere out of its repository."""
    return not file.is_absolute() and ".." not in file.parts


def chosen_graph(files: ModelFiles, wanted: str | None) -> str:
    """The name of the ONNX file to run: the one that is wanted, else one with weights
    of 8 bits, else the model as it is, else the only one there is.

    Raises:
        ModelFileError: there is none, or nothing says which of several.
    """
    graphs = [name for name in files.names if name.endswith(".onnx")]
    if wanted is not None:
        if wanted in files.names:
            return wanted
        raise ModelFileError(f"{files.name} has no file {wanted}. {_there(graphs)}")
    for name in (*QUANTISED, FULL):
        for folder in FOLDERS:
            if folder + name in graphs:
                return folder + name
    if len(graphs) == 1:
        return graphs[0]
    raise ModelFileError(
        f"{files.name} has no ONNX file of a usual name. {_there(graphs)}"
    )


def _there(graphs: list[str]) -> str:
    if graphs:
        shown = ", ".join(graphs[:10])
        return f"Choose one of its files: OnnxEmbeddings(…, file=…) with {shown}."
    return "It has none at all: give a model whose repository has a folder onnx."


def fetched_graph(files: ModelFiles, name: str) -> Path:
    """Where the ONNX file lies, once it and the weights beside it are there."""
    for other in files.names:
        if other.startswith((f"{name}_data", f"{name}.data")):
            files.path(other)
    return files.path(name)
