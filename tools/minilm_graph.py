"""Write MiniLM's program, langmem_graph/embeddings/minilm.onnx: `python tools/minilm_graph.py`.

The weights ship as tensors without a program. This script writes that program down, step by step,
in ONNX's own text form, and names for each tensor its place in the published model.safetensors.
onnxruntime then reads the numbers from that file itself: nothing is converted at run time. The
result has 34 kB and is committed; a test compares it with what this script writes.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper, parser

from langmem_graph.embeddings.minilm import PROGRAM, WEIGHTS, model_folder

LAYERS = 6
HEADS = 12
HEAD_SIZE = 32
# layer_norm_eps of the model's config
NORM = "LayerNormalization <axis = -1, epsilon = 1e-12>"

_MODEL = """<ir_version: 10, opset_import: ["" : 20]>
minilm (int64[batch, length] input_ids, int64[batch, length] attention_mask,
        int64[batch, length] token_type_ids) => (float[batch, length, 384] last_hidden_state) {{
{steps}
    last_hidden_state = Identity(hidden_{layers})
}}"""

# A token's vector is the sum of its word, kind and position; `mask` hides the padding.
_EMBED = """
    words = Gather(embeddings_word_embeddings_weight, input_ids)
    kinds = Gather(embeddings_token_type_embeddings_weight, token_type_ids)
    length = Shape <start = 1> (input_ids)
    positions = Slice(embeddings_position_embeddings_weight, zero, length, zero)
    words_and_kinds = Add(words, kinds)
    embedded = Add(words_and_kinds, positions)
    hidden_0 = {norm} (embedded, embeddings_LayerNorm_weight, embeddings_LayerNorm_bias)
    seen = Unsqueeze(attention_mask, mask_axes)
    is_seen = Cast <to = 9> (seen)
    mask = Where(is_seen, nothing, very_negative)
"""

# Dense layers are stored transposed. onnxruntime turns them once, when it loads the program.
_TRANSPOSE = "    {0} = Transpose <perm = [1, 0]> ({0}_rows)\n"

# One transformer layer: self-attention over all tokens, then a feed-forward block.
_LAYER = """
    {n}_query = MatMul({source}, {n}_attention_self_query_weight)
    {n}_query_b = Add({n}_query, {n}_attention_self_query_bias)
    {n}_query_s = Reshape({n}_query_b, split)
    {n}_query_h = Transpose <perm = [0, 2, 1, 3]> ({n}_query_s)
    {n}_key = MatMul({source}, {n}_attention_self_key_weight)
    {n}_key_b = Add({n}_key, {n}_attention_self_key_bias)
    {n}_key_s = Reshape({n}_key_b, split)
    {n}_key_h = Transpose <perm = [0, 2, 3, 1]> ({n}_key_s)
    {n}_value = MatMul({source}, {n}_attention_self_value_weight)
    {n}_value_b = Add({n}_value, {n}_attention_self_value_bias)
    {n}_value_s = Reshape({n}_value_b, split)
    {n}_value_h = Transpose <perm = [0, 2, 1, 3]> ({n}_value_s)
    {n}_alike = MatMul({n}_query_h, {n}_key_h)
    {n}_scaled = Div({n}_alike, root_head_size)
    {n}_masked = Add({n}_scaled, mask)
    {n}_attention = Softmax <axis = -1> ({n}_masked)
    {n}_mixed_h = MatMul({n}_attention, {n}_value_h)
    {n}_mixed_s = Transpose <perm = [0, 2, 1, 3]> ({n}_mixed_h)
    {n}_mixed = Reshape({n}_mixed_s, joined)
    {n}_output = MatMul({n}_mixed, {n}_attention_output_dense_weight)
    {n}_output_b = Add({n}_output, {n}_attention_output_dense_bias)
    {n}_attended_r = Add({n}_output_b, {source})
    {n}_attended = {norm} (
        {n}_attended_r, {n}_attention_output_LayerNorm_weight, {n}_attention_output_LayerNorm_bias)
    {n}_wide = MatMul({n}_attended, {n}_intermediate_dense_weight)
    {n}_wide_b = Add({n}_wide, {n}_intermediate_dense_bias)
    {n}_active = Gelu({n}_wide_b)
    {n}_narrow = MatMul({n}_active, {n}_output_dense_weight)
    {n}_narrow_b = Add({n}_narrow, {n}_output_dense_bias)
    {n}_fed_r = Add({n}_narrow_b, {n}_attended)
    {target} = {norm} ({n}_fed_r, {n}_output_LayerNorm_weight, {n}_output_LayerNorm_bias)
"""


def program(safetensors_file: Path) -> bytes:
    """The ONNX model whose tensors lie in `safetensors_file`."""
    places = _places(safetensors_file)
    dense = [name for name in places if _is_dense(name)]
    steps = "".join(map(_TRANSPOSE.format, dense)) + _steps()
    model = parser.parse_model(_MODEL.format(steps=steps, layers=LAYERS))
    model.graph.initializer.extend(
        _reference(f"{name}_rows" if name in dense else name, place)
        for name, place in places.items()
    )
    model.graph.initializer.extend(
        numpy_helper.from_array(tensor, name) for name, tensor in _constants().items()
    )
    written: bytes = model.SerializeToString(deterministic=True)
    return written


def _steps() -> str:
    layers = (
        _LAYER.format(
            n=f"encoder_layer_{n}",
            source=f"hidden_{n}",
            target=f"hidden_{n + 1}",
            norm=NORM,
        )
        for n in range(LAYERS)
    )
    return _EMBED.format(norm=NORM) + "".join(layers)


def _places(file: Path) -> dict[str, dict[str, Any]]:
    """Shape, first byte and length of each tensor that is used, under ONNX-safe names.

    A safetensors file is the length of its header (8 bytes), the header (JSON), and the numbers.
    """
    with file.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(size))
    return {
        name.replace(".", "_"): {
            "shape": tensor["shape"],
            "offset": 8 + size + tensor["data_offsets"][0],
            "length": tensor["data_offsets"][1] - tensor["data_offsets"][0],
        }
        for name, tensor in header.items()
        if name.startswith(("embeddings", "encoder")) and tensor["dtype"] == "F32"
    }


def _is_dense(name: str) -> bool:
    return (
        name.startswith("encoder")
        and name.endswith("weight")
        and "LayerNorm" not in name
    )


def _reference(name: str, place: dict[str, Any]) -> TensorProto:
    tensor = TensorProto(
        name=name,
        data_type=TensorProto.FLOAT,
        dims=place["shape"],
        data_location=TensorProto.EXTERNAL,
    )
    where = {"location": WEIGHTS, "offset": place["offset"], "length": place["length"]}
    for key, value in where.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def _constants() -> dict[str, NDArray[np.float32] | NDArray[np.int64]]:
    return {
        "zero": np.array([0]),
        "mask_axes": np.array([1, 2]),
        "split": np.array([0, 0, HEADS, HEAD_SIZE]),
        "joined": np.array([0, 0, HEADS * HEAD_SIZE]),
        "root_head_size": np.array(HEAD_SIZE**0.5, dtype=np.float32),
        "nothing": np.array(0, dtype=np.float32),
        "very_negative": np.array(np.finfo(np.float32).min, dtype=np.float32),
    }


if __name__ == "__main__":
    PROGRAM.write_bytes(program((model_folder() / WEIGHTS).resolve()))
