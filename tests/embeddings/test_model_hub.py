"""Models fetched from a hub: once, in whole files, and with an error that says what is wrong."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from time import monotonic

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed: it comes with the group dev")

from huggingface_hub import constants

from langmem_graph.embeddings import OnnxEmbeddings, hub
from langmem_graph.embeddings.model_files import ModelFiles
from langmem_graph.errors import ModelFileError
from langmem_graph.memory import Memory
from tests.support import tiny_models as tiny
from tests.support.loopback import loopback_alone
from tests.support.model_hub import COMMIT, REPOSITORY, Hub, model_hub

pytestmark = pytest.mark.enable_socket  # loopback only, see the fixture
EXPECTED = tiny.rows("tea").mean(axis=0)


def use_hub(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """What `$HF_ENDPOINT` does for a new process."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", url)
    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with a model whose weights are outside of its graph, and an empty cache."""
    folder = tiny.model(tmp_path / "served")
    tiny.graph(folder / "onnx/model.onnx", external="model.onnx_data")
    monkeypatch.setenv(hub.CACHE_VARIABLE, str(tmp_path / "cache"))
    with loopback_alone(), model_hub(folder) as made:
        use_hub(monkeypatch, made.url)
        yield made


def test_an_address_with_a_password_is_refused(
    served: Hub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client of the hub would log it."""
    caplog.set_level("DEBUG")
    address = served.url.replace("://", "://me:S3CRET@")
    use_hub(monkeypatch, address)
    with pytest.raises(ModelFileError, match="HF_TOKEN") as refused:
        OnnxEmbeddings(REPOSITORY).embed_query("tea")
    assert "S3CRET" not in f"{refused.value}{caplog.text}"


def test_a_model_is_fetched_once_and_only_what_is_used(
    served: Hub, tmp_path: Path
) -> None:
    tiny.graph(served.folder / "onnx/model_O4.onnx")
    assert np.allclose(
        OnnxEmbeddings(REPOSITORY).embed_query("tea"), EXPECTED, atol=1e-6
    )
    fetched = {
        path.rpartition(COMMIT + "/")[2] for path in served.asked if COMMIT in path
    }
    assert {"onnx/model.onnx", "onnx/model.onnx_data", "tokenizer.json"} <= fetched
    assert "onnx/model_O4.onnx" not in fetched
    served.asked.clear()
    assert np.allclose(
        OnnxEmbeddings(REPOSITORY).embed_query("tea"), EXPECTED, atol=1e-6
    )
    assert served.asked == []


def test_what_main_was_stays_also_for_files_that_are_fetched_later(served: Hub) -> None:
    OnnxEmbeddings(REPOSITORY).embed_query("tea")
    tiny.graph(served.folder / "onnx/model_quantized.onnx", scale=9)
    again = OnnxEmbeddings(REPOSITORY).embed_query("tea")
    assert np.allclose(again, EXPECTED, atol=1e-6)


def test_names_that_lead_out_of_the_models_folder_are_left_out(
    served: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["config.json", "/etc/passwd", "../other.json", "onnx/../../other.json"]
    monkeypatch.setattr(hub, "repository_files", lambda *_: (COMMIT, names))
    assert ModelFiles(REPOSITORY).names == ["config.json"]


def test_a_revision_has_files_of_its_own(served: Hub) -> None:
    OnnxEmbeddings(REPOSITORY).embed_query("tea")
    tiny.graph(served.folder / "onnx/model_quantized.onnx", scale=9)
    other = OnnxEmbeddings(REPOSITORY, revision="v2")
    assert np.allclose(other.embed_query("tea"), 9 * EXPECTED, atol=1e-5)
    assert any(path.endswith("/revision/v2") for path in served.asked)
    assert other.model_name == f"{REPOSITORY}@v2"


def test_a_damaged_list_of_files_is_asked_for_again(served: Hub) -> None:
    OnnxEmbeddings(REPOSITORY).embed_query("tea")
    kept = hub.cache_directory() / "onnx/ana--tiny@main/.listing.json"
    kept.write_text("{", encoding="utf-8")
    OnnxEmbeddings(REPOSITORY).embed_query("tea")
    assert COMMIT in kept.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("repository", "revision", "said"),
    [
        ("ana/nothing", None, "has no model ana/nothing.*HF_TOKEN"),
        (REPOSITORY, "v9", "no revision v9.*give another"),
    ],
)
def test_what_the_hub_does_not_have(
    served: Hub, repository: str, revision: str | None, said: str
) -> None:
    with pytest.raises(ModelFileError, match=said):
        OnnxEmbeddings(repository, revision=revision).embed_query("tea")


def test_a_file_that_went_missing_is_fetched_at_the_next_try(served: Hub) -> None:
    served.absent.add("onnx/model.onnx_data")
    embedder = OnnxEmbeddings(REPOSITORY)
    with pytest.raises(ModelFileError, match="EntryNotFound"):
        embedder.embed_query("tea")
    served.absent.clear()
    assert np.allclose(embedder.embed_query("tea"), EXPECTED, atol=1e-6)


def test_a_repository_without_onnx_files_is_named_before_anything_is_fetched(
    served: Hub,
) -> None:
    shutil.rmtree(served.folder / "onnx")
    with pytest.raises(ModelFileError, match=f"{REPOSITORY} has no ONNX file"):
        OnnxEmbeddings(REPOSITORY).embed_query("tea")
    assert not any("resolve" in path for path in served.asked)


def test_without_a_network_the_error_comes_soon_and_words_still_find(
    served: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    use_hub(monkeypatch, address)
    start = monotonic()
    with pytest.raises(ModelFileError, match=f"{address} gave no answer.*a directory"):
        OnnxEmbeddings(REPOSITORY).embed_query("tea")
    with Memory(tmp_path / "memory", embeddings=f"onnx:{REPOSITORY}") as memory:
        report = memory.user("ana").add([("user", "green tea")], session_id="s")
        assert REPOSITORY in report.warnings[0]
        assert memory.user("ana").search_conversation("tea")[0].text == "green tea"
    assert monotonic() - start < 8


def test_offline_mode_of_the_hubs_client_is_respected(
    served: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelFileError, match="OfflineMode"):
        OnnxEmbeddings(REPOSITORY).embed_query("tea")
    assert served.asked == []


@pytest.mark.parametrize(
    "hanging", ["/api/models", "tokenizer.json", "onnx/model.onnx"]
)
def test_a_hub_that_stops_answering_is_given_up(
    served: Hub, monkeypatch: pytest.MonkeyPatch, hanging: str
) -> None:
    monkeypatch.setattr(hub, "TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(hub, "STALL_SECONDS", 1.0)
    served.hangs.add(hanging)
    start = monotonic()
    # ReadError: where a download that another test left behind closes all connections
    with pytest.raises(ModelFileError, match=r"gave no answer.*(Time|ReadError)"):
        OnnxEmbeddings(REPOSITORY).embed_query("tea")
    assert monotonic() - start < 15


def test_a_slow_download_is_waited_for_as_long_as_something_arrives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "STALL_SECONDS", 0.2)
    file, download = tmp_path / "model.onnx", Future[None]()
    sizes = iter([0, 10, 20, 20])
    monkeypatch.setattr(hub, "_size", lambda _: next(sizes))
    with pytest.raises(TimeoutError):
        hub._wait_while_growing(download, file)
    assert list(sizes) == []


def test_a_hub_that_never_answers_is_given_up(
    served: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "CONTACT_SECONDS", 0.3)
    start = monotonic()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        use_hub(monkeypatch, f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(ModelFileError, match="Timeout"):
            OnnxEmbeddings(REPOSITORY).embed_query("tea")
    assert monotonic() - start < 5


def test_a_cache_that_cannot_be_written_is_named(
    served: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(hub.CACHE_VARIABLE, str(tmp_path / "file"))
    with pytest.raises(ModelFileError, match=f"Set {hub.CACHE_VARIABLE}"):
        OnnxEmbeddings(REPOSITORY).embed_query("tea")


def test_the_hub_is_the_one_of_the_environment_and_nothing_heavy_is_imported(
    served: Hub,
) -> None:
    code = (
        "import sys\nfrom langmem_graph.embeddings.embedder import load_embedder\n"
        f"made = load_embedder('onnx:{REPOSITORY}')\n"
        "print([name for name in ('onnxruntime', 'tokenizers') if name in sys.modules])\n"
        "print(made.embed(['tea']).shape)\n"
        "print([name for name in ('torch', 'onnx', 'transformers') if name in sys.modules])"
    )
    unset = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    environment = {
        name: value for name, value in os.environ.items() if name not in unset
    }
    environment["HF_ENDPOINT"] = served.url
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert done.stdout.split("\n")[:3] == ["[]", "(1, 4)", "[]"]
