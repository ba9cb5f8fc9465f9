"""What a sentence-transformers model says of itself: how token vectors become one
vector, the window, and what stands before queries and documents.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langmem_graph.embeddings.model_files import ModelFiles
from langmem_graph.embeddings.running import Pooling

_log = logging.getLogger(__name__)
_POOLINGS: dict[str, Pooling] = {
    "mean_tokens": "mean",
    "cls_token": "cls",
    "max_tokens": "max",
    "lasttoken": "last",
}
_NAMED: dict[str, Pooling] = {
    "mean": "mean",
    "cls": "cls",
    "max": "max",
    "lasttoken": "last",
}
_MODE = "pooling_mode_"
_E5 = re.compile(r"(^|[-_./\\])e5([-_.]|$)", re.IGNORECASE)
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")
WINDOW = 512  # of a model that does not say
# tokenizers without a limit say 1e30
_NO_LIMIT = 1_000_000
# their positions begin after the padding token's number
_SHIFTED = ("roberta", "xlm-roberta", "camembert", "mpnet")


@dataclass(frozen=True)
class ModelCard:
    """What is done with a text before and after the graph has run."""

    pooling: Pooling = "mean"
    refused: str = ""
    """What cannot be done after the graph, unless the graph does it itself."""
    to_unit: bool = False
    window: int = WINDOW
    query_prefix: str = ""
    document_prefix: str = ""


def read_card(files: ModelFiles) -> ModelCard:
    """What the model's files say.

    Raises:
        ModelFileError: one of them cannot be read.
    """
    pooling, refused, to_unit = _modules(files)
    query, document, apart = _prompts(files)
    if apart and (query or document):
        refused = refused or "pooling that leaves the prompt's tokens out"
    window = _window(files)
    return ModelCard(pooling, refused, to_unit, window, query, document)


def _modules(files: ModelFiles) -> tuple[Pooling, str, bool]:
    """The pooling, what cannot be done, and whether vectors are brought to unit
    length.
    """
    modules = files.content("modules.json", list)
    if modules is None:
        _log.warning(
            "%s has no modules.json: the mean of its tokens is taken, as "
            "sentence-transformers does.",
            files.name,
        )
        return "mean", "", False
    if not all(isinstance(one, dict) for one in modules):
        raise files.damaged("modules.json", "its entries are no objects")
    kinds = [str(one.get("type")).rpartition(".")[2] for one in modules]
    known = ("Transformer", "Pooling", "Normalize")
    refused = ", ".join(f"a module {kind}" for kind in kinds if kind not in known)
    places = [
        str(one.get("path") or "")
        for one, kind in zip(modules, kinds, strict=True)
        if kind == "Pooling"
    ]
    pooling, other = _pooling(files, places[0] if places else "1_Pooling")
    return pooling, refused or other, "Normalize" in kinds


def _pooling(files: ModelFiles, folder: str) -> tuple[Pooling, str]:
    """The kind of pooling, and what cannot be done of it."""
    said: dict[str, Any] = files.content(f"{folder}/config.json", dict) or {}
    named = said.get("pooling_mode")
    modes = [
        key.removeprefix(_MODE)
        for key, value in said.items()
        if key.startswith(_MODE) and value is True
    ]
    if isinstance(named, str) and not modes:
        kind = _NAMED.get(named)
        return kind or "mean", "" if kind else f"pooling by {named}"
    if not modes:
        return "mean", ""
    kind = _POOLINGS.get(modes[0])
    if kind is None or len(modes) > 1:
        return "mean", f"pooling by {' and '.join(modes)}"
    return kind, ""


def _prompts(files: ModelFiles) -> tuple[str, str, bool]:
    """What stands before a query and before a document, and whether pooling leaves it
    out.
    """
    said: dict[str, Any] = (
        files.content("config_sentence_transformers.json", dict) or {}
    )
    given = said.get("prompts")
    prompts: Mapping[str, Any] = given if isinstance(given, dict) else {}
    usual = str(prompts.get(str(said.get("default_prompt_name"))) or "")
    query = str(prompts.get("query") or usual)
    named = (prompts.get(name) for name in _DOCUMENT_PROMPTS)
    document = str(next(filter(None, named), usual))
    if not query and not document and _is_e5(files):
        query = "query: "
        document = "passage: "
    pooling: dict[str, Any] = files.content("1_Pooling/config.json", dict) or {}
    return query, document, pooling.get("include_prompt") is False


def _is_e5(files: ModelFiles) -> bool:
    """Whether it is a model of the E5 family whose queries are no instructions."""
    config: dict[str, Any] = files.content("config.json", dict) or {}
    last = re.split(r"[/\\]", files.repository.rstrip("/\\"))[-1]
    names = [last, str(config.get("_name_or_path") or "")]
    return any(_E5.search(name) and "instruct" not in name for name in names)


def _window(files: ModelFiles) -> int:
    """The largest number of tokens, with those that begin and end a text."""
    own: dict[str, Any] = files.content("sentence_bert_config.json", dict) or {}
    tokenizer: dict[str, Any] = files.content("tokenizer_config.json", dict) or {}
    said = own.get("max_seq_length")
    if isinstance(said, int) and said > 0:
        return said
    limits = [tokenizer.get("model_max_length"), _positions(files)]
    numbers = [int(one) for one in limits if isinstance(one, int | float)]
    return min((one for one in numbers if 0 < one < _NO_LIMIT), default=WINDOW)


def _positions(files: ModelFiles) -> int | None:
    config: dict[str, Any] = files.content("config.json", dict) or {}
    most = config.get("max_position_embeddings")
    if not isinstance(most, int):
        return None
    shifted = config.get("model_type") in _SHIFTED
    return most - int(config.get("pad_token_id") or 0) - 1 if shifted else most


def padding_token(files: ModelFiles, tokenizer: Any) -> int:
    """The number of the token that fills up short texts; 0 where nothing names it."""
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        said: dict[str, Any] = files.content(name, dict) or {}
        token = said.get("pad_token")
        text = token.get("content") if isinstance(token, dict) else token
        number = tokenizer.token_to_id(text) if isinstance(text, str) else None
        if number is not None:
            return int(number)
    stored: dict[str, Any] = files.content("tokenizer.json", dict) or {}
    config: dict[str, Any] = files.content("config.json", dict) or {}
    padding = stored.get("padding")
    own = padding.get("pad_id") if isinstance(padding, dict) else None
    found = config.get("pad_token_id") if own is None else own
    return found if isinstance(found, int) else 0
