"""The body of one streaming chat, as vLLM and SGLang both take it.

The schema travels as OpenAI's `response_format`; `chat_template_kwargs` and the samplers beyond
OpenAI's are extensions of both. Read in the request models of vLLM 0.32.0 and SGLang 0.5.23.
"""

from __future__ import annotations

from engines import Chat, Sampling


def chat_body(model: str, chat: Chat, output_tokens: int, sampling: Sampling) -> dict[str, object]:
    """Return the body of one chat of at most, or exactly, `output_tokens` tokens."""
    body: dict[str, object] = {
        "model": model,
        "messages": [dict(message) for message in chat.messages],
        "max_tokens": output_tokens,
        "ignore_eos": chat.exact,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": 0.0,
        "repetition_penalty": sampling.repetition_penalty,
    }
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    if chat.thinking is not None:
        body["chat_template_kwargs"] = {"enable_thinking": chat.thinking}
    if chat.schema is not None:
        named = {"name": "answer", "schema": dict(chat.schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    return body
