"""Turn MiniLM's published weights (safetensors) into an ONNX file.

The weights ship as tensors without a program. This module writes that program down, step by
step, in ONNX's own text form, so that onnxruntime can run it without torch.
"""

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper, parser
from safetensors.numpy import load_file

LAYERS = 6
HEADS = 12
HEAD_SIZE = 32
NORM = "LayerNormalization <axis = -1, epsilon = 1e-12>"  # layer_norm_eps of the model's config

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


def convert(safetensors_file: Path, onnx_file: Path) -> None:
    """Write the ONNX model of the MiniLM weights in `safetensors_file` to `onnx_file`."""
    model = parser.parse_model(_MODEL.format(steps=_steps(), layers=LAYERS))
    tensors = {**_weights(safetensors_file), **_constants()}
    model.graph.initializer.extend(
        numpy_helper.from_array(tensor, name) for name, tensor in tensors.items()
    )
    onnx.checker.check_model(model)
    onnx.save(model, onnx_file)


def _steps() -> str:
    layers = (
        _LAYER.format(
            n=f"encoder_layer_{n}", source=f"hidden_{n}", target=f"hidden_{n + 1}", norm=NORM
        )
        for n in range(LAYERS)
    )
    return _EMBED.format(norm=NORM) + "".join(layers)


def _weights(file: Path) -> dict[str, NDArray[np.float32]]:
    """The model's tensors under ONNX-safe names; dense layers transposed, as MatMul wants them."""
    tensors = {name.replace(".", "_"): tensor for name, tensor in load_file(file).items()}
    return {
        name: np.ascontiguousarray(tensor.T) if _is_dense(name) else tensor
        for name, tensor in tensors.items()
        if not name.startswith("pooler") and name != "embeddings_position_ids"
    }


def _is_dense(name: str) -> bool:
    return name.startswith("encoder") and name.endswith("weight") and "LayerNorm" not in name


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
