"""Chat models: from a name, from a server's URL, or checked as they are given."""

import os
from typing import Any

from langchain_core.language_models import BaseChatModel
from pydantic import ValidationError

from langmem_graph.errors import ChatModelError, explain
from langmem_graph.llm.answer_schemas import GroundedAnswer
from langmem_graph.server_urls import (
    NOT_SHOWN,
    as_shown,
    bare_key,
    check_address,
    login_apart,
    may_hold_password,
    shown_url,
)

DEFAULT_MODEL = "openai:gpt-4o-mini"
TIMEOUT_SECONDS = 120.0
MAX_TOKENS = 1_024


def load_chat_model(
    model: str | None = None, base_url: str | None = None, **options: Any
) -> BaseChatModel | None:
    """Make a chat model; None if no model is named and none is configured.

    Args:
        model: a name that `init_chat_model` takes, such as `openai:gpt-4o-mini`; with
            `base_url` the server's own name for it. None: the server's first model, or
            `openai:gpt-4o-mini` when `OPENAI_API_KEY` is set.
        base_url: any OpenAI-compatible server, such as `http://localhost:11434/v1`,
            with user and password for a proxy that asks for these. Its key, if it wants
            one, is taken from `OPENAI_API_KEY`.
        options: for the model's constructor, such as `max_tokens` (with `base_url`
            1,024: small models do not always find an end) or `timeout` in seconds (with
            `base_url` 120).

    Raises:
        ChatModelError: the model cannot be made, or the server cannot be asked for its
            models.
    """
    try:
        if base_url:
            address, login = login_apart(base_url)
            key = bare_key(os.environ.get("OPENAI_API_KEY", ""))
            served = {
                "base_url": address,
                "api_key": key or "no-key-needed",
                "default_headers": login | (options.get("default_headers") or {}),
            }
            model = model or _first_model(served)
            options = {
                "timeout": TIMEOUT_SECONDS,
                "max_tokens": MAX_TOKENS,
                "model_provider": "openai",
                **options,
                **served,
            }
        elif model is None and not os.environ.get("OPENAI_API_KEY"):
            return None
        from langchain.chat_models import init_chat_model

        made: BaseChatModel = init_chat_model(model or DEFAULT_MODEL, **options)
        if not base_url:
            check_address(made)
        return made
    except Exception as error:  # every provider raises errors of its own
        named = NOT_SHOWN if model and may_hold_password(f"{model}") else model
        shown = shown_url(f"{base_url}") if base_url else None
        at = f" at {shown}" if shown else ""
        text = f"No chat model ({named or ('any' if at else DEFAULT_MODEL)}{at})"
        said: Exception = error
        if isinstance(error, ValidationError):  # which quotes what it was given
            said = ValueError(explain(error))
        why, cause = as_shown(said)
        if cause is None:
            raise ChatModelError(f"{text}: {why}.") from None
        if said is not error:
            raise ChatModelError(f"{text}: {said}") from None
        if (named, shown) == (model, base_url or None):
            raise ChatModelError(f"{text}: {error}") from error
        # the error may quote what is not shown
        raise ChatModelError(
            f"{text}: {type(error).__name__}. A name is as openai:gpt-4o-mini, a "
            "server's URL as http://localhost:11434/v1."
        ) from None


def as_chat_model(model: Any) -> BaseChatModel:
    """The chat model of a name, or the given one; ChatModelError for one that cannot be
    used.
    """
    made = load_chat_model(model) if isinstance(model, str) else model
    if not isinstance(made, BaseChatModel):
        raise ChatModelError(
            "model must be a name such as 'openai:gpt-4o-mini' or a chat model, not "
            f"a {type(model).__name__}."
        )
    try:  # now: later, each call would just count as unusable
        made.with_structured_output(GroundedAnswer, include_raw=True)
    except NotImplementedError as error:
        raise ChatModelError(
            f"{type(made).__name__} cannot be memory's model: it has no "
            "with_structured_output. "
            "Give a chat model with tool calling or JSON answers."
        ) from error
    return made


def _first_model(served: dict[str, Any]) -> str:
    from openai import OpenAI

    with OpenAI(**served, timeout=TIMEOUT_SECONDS) as client:
        names = [model.id for model in client.models.list()]
    if not names:
        raise LookupError("the server lists no models; name one")
    return names[0]
