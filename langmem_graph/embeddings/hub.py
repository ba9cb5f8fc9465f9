"""The Hugging Face hub: a short first contact, a file of a repository, and the folder
that files are kept in.

The hub's own client tries again for a minute where there is no network; the contact
tells within seconds whether it can be reached.
"""

import os
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from langmem_graph.errors import ModelFileError
from langmem_graph.server_urls import decoded, holds_password, may_hold_password
from langmem_graph.threads import start_thread

TIMEOUT_SECONDS = 10
# for the first contact with the hub, the look-up of its name included
CONTACT_SECONDS = 4
# a download in which nothing arrives for so long is waited for no longer
STALL_SECONDS = 30
CACHE_VARIABLE = "LANGMEM_GRAPH_CACHE"


def cache_directory() -> Path:
    """`$LANGMEM_GRAPH_CACHE`, else `~/.cache/langmem-graph`.

    Raises:
        ModelFileError: the variable holds a URL or a connection string.
    """
    chosen = os.environ.get(CACHE_VARIABLE)
    if not chosen:
        return Path.home() / ".cache" / "langmem-graph"
    folder = Path(chosen)
    is_url = "://" in decoded(chosen)
    if is_url or (may_hold_password(chosen) and not folder.is_absolute()):
        raise ModelFileError(
            f"{CACHE_VARIABLE} reads as a URL or a connection string. Set it to a "
            "directory that can be written."
        )
    return folder


def made_folder(folder: Path) -> Path:
    """The folder of the cache, which is made where it is missing.

    Raises:
        ModelFileError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelFileError(
            f"The embedding model could not be written to {folder}: {error}. "
            f"Set {CACHE_VARIABLE} to a directory that can be written."
        ) from error
    return folder


def reach_hub() -> str:
    """The hub's address (`$HF_ENDPOINT`), after it has answered.

    Raises:
        ModelFileError: the address holds a user or a key.
        Exception: what the hub's client raises, or `TimeoutError`.
    """
    os.environ.setdefault("HF_HUB_DOWNLOAD_TIMEOUT", str(TIMEOUT_SECONDS))
    from huggingface_hub import constants, get_session

    address = constants.ENDPOINT
    if holds_password(address):
        raise ModelFileError(
            "HF_ENDPOINT holds a user or a key, which the client of the hub writes "
            "into logs. Leave it out, and set HF_TOKEN."
        )
    contact = start_thread(lambda: get_session().head(address, timeout=CONTACT_SECONDS))
    contact.result(CONTACT_SECONDS)
    return address


def fetch_file(repository: str, revision: str, name: str, folder: Path) -> None:
    """Download a file into a folder; the hub's client moves it into place once it is
    complete.

    The client tries again for minutes where the hub stops answering; a download that
    stands still is left to its thread.

    Raises:
        Exception: what the hub's client raises, or `TimeoutError`.
    """
    from huggingface_hub import constants, hf_hub_download

    download = partial(
        hf_hub_download,
        repository,
        name,
        revision=revision,
        local_dir=folder,
        endpoint=constants.ENDPOINT,
        etag_timeout=TIMEOUT_SECONDS,
    )
    _wait_while_growing(start_thread(download), folder)


def _wait_while_growing(download: Future[Any], folder: Path) -> None:
    before = _size(folder)
    while True:
        try:
            download.result(STALL_SECONDS)
        except TimeoutError:  # of this wait, or of the download
            now = _size(folder)
            if download.done() or now == before:
                raise
            before = now
        else:
            return


def _size(folder: Path) -> int:
    """Bytes of all files, also of those that are not complete."""
    total = 0
    for file in folder.rglob("*"):
        with suppress(OSError):  # moved into place meanwhile
            total += file.stat().st_size
    return total


def repository_files(repository: str, revision: str | None) -> tuple[str, list[str]]:
    """The commit that a revision names, and the names of its files."""
    from huggingface_hub import HfApi, constants

    api = HfApi(endpoint=constants.ENDPOINT)
    found: Any = api.model_info(repository, revision=revision, timeout=TIMEOUT_SECONDS)
    return found.sha, [file.rfilename for file in found.siblings or ()]
