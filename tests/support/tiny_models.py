"""A sentence-transformers model of a few words, whose graph looks token vectors up."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

WORDS = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "query", "passage", ":"]
WORDS += ["aisle", "seat", "porto", "berlin", "tea"]
NUMBERS = {word: number for number, word in enumerate(WORDS)}
TABLE = np.random.default_rng(7).normal(size=(len(WORDS), 4)).astype(np.float32)
POSITIONS = np.arange(64, dtype=np.float32)[:, None] * np.ones(4, dtype=np.float32)
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def graph(
    file: Path,
    *,
    scale: float = 1.0,
    inputs: tuple[str, ...] = INPUTS,
    output: str = "last_hidden_state",
    number: int = TensorProto.INT64,
    external: str | None = None,
) -> None:
    """Write a graph: each token's vector of the table, times `scale`; with the number of its
    position added where the graph asks for positions; as `sentence_embedding` the mean."""
    tensors = {"table": TABLE * scale, "places": POSITIONS}
    if output == "sentence_embedding":
        nodes = [
            helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
            helper.make_node("ReduceMean", ["rows"], [output], axes=[1], keepdims=0),
        ]
    elif "position_ids" in inputs:
        nodes = [
            helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
            helper.make_node("Gather", ["places", "position_ids"], ["added"]),
            helper.make_node("Add", ["rows", "added"], [output]),
        ]
    else:
        nodes = [helper.make_node("Gather", ["table", "input_ids"], [output])]
    shape = ["batch", 4] if output == "sentence_embedding" else ["batch", "width", 4]
    made = helper.make_graph(
        nodes,
        "tiny",
        [
            helper.make_tensor_value_info(name, number, ["batch", "width"])
            for name in inputs
        ],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
        [
            numpy_helper.from_array(value.astype(np.float32), name)
            for name, value in tensors.items()
        ],
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(made, opset_imports=opset, ir_version=8)
    file.parent.mkdir(parents=True, exist_ok=True)
    outside = {"save_as_external_data": True, "location": external, "size_threshold": 0}
    save(model, file, **(outside if external else {}))


def tokenizer(file: Path, *, marks: bool = True) -> None:
    """Write a tokenizer of whole words, which marks begin and end of a text; as some published
    ones do, it asks for padding and truncation."""
    made = Tokenizer(WordLevel(NUMBERS, "[UNK]"))
    made.pre_tokenizer = Whitespace()
    if marks:
        made.post_processor = TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
        )
    made.add_special_tokens(["[CLS]", "[SEP]", "[PAD]"])
    made.enable_padding(pad_id=3, pad_token="[PAD]", length=40)
    made.enable_truncation(5)
    file.parent.mkdir(parents=True, exist_ok=True)
    made.save(str(file))


def model(
    folder: Path,
    *,
    pooling: dict[str, Any] | None = None,
    modules: tuple[str, ...] = ("Transformer", "Pooling"),
    prompts: dict[str, Any] | None = None,
    window: int | None = 10,
) -> Path:
    """Write a whole model with `onnx/model.onnx`."""
    graph(folder / "onnx/model.onnx")
    tokenizer(folder / "tokenizer.json")
    stages = [
        {"idx": i, "path": f"{i}_{kind}" if i else "", "type": f"a.models.{kind}"}
        for i, kind in enumerate(modules)
    ]
    write(folder / "modules.json", stages)
    write(
        folder / "1_Pooling/config.json", pooling or {"pooling_mode_mean_tokens": True}
    )
    write(folder / "sentence_bert_config.json", {"max_seq_length": window})
    write(folder / "config.json", {"model_type": "bert", "max_position_embeddings": 12})
    write(folder / "tokenizer_config.json", {"pad_token": "[PAD]"})
    if prompts is not None:
        write(folder / "config_sentence_transformers.json", prompts)
    return folder


def write(file: Path, content: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content), encoding="utf-8")


def rows(*words: str) -> np.ndarray[Any, Any]:
    """The token vectors of a text of these words, with its marks."""
    return TABLE[[NUMBERS[word] for word in ("[CLS]", *words, "[SEP]")]]
