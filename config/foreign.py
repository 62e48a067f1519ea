"""Keys of the ``memsearch`` of PyPI, which uses the same home and the same file name.

Whoever has used it must be able to use this one with the file as it is: keys that mean the
same there and here (``milvus.uri``, ``embedding.model``, ``chunking.*``, …) are simply taken;
those below mean nothing here and are named, never an error. Read off its version 0.4.23.
"""

from __future__ import annotations

#: What the other tool's keys correspond to here, by path or beginning of a path.
FOREIGN: dict[tuple[str, ...], str] = {
    ("milvus", "collection"): "each project has a collection of its own here; choose one with "
    'projects."PATH".collection',
    ("compact", "llm_provider"): "see summarize.provider",
    ("compact", "llm_model"): "see summarize.model",
    ("compact", "base_url"): "see summarize.base_url",
    ("compact", "api_key"): "see summarize.api_key",
    ("compact", "prompt_file"): "the prompt is built in here",
    ("reranker",): "see search.reranker",
    ("llm",): "see summarize.provider, model, base_url and api_key",
    ("prompts",): "the prompt is built in here",
    ("plugins",): "see summarize.platforms and capture.enabled",
}

#: The other tool's default model for its provider ``onnx``, which its ``config init`` writes
#: into the file. The built-in ``onnx`` model here is another one and needs no download.
FOREIGN_ONNX_MODEL = "gpahal/bge-m3-onnx-int8"


def foreign_key(path: tuple[str, ...]) -> tuple[tuple[str, ...], str] | None:
    """The entry that a path falls under, and what corresponds to it here."""
    for length in range(len(path), 0, -1):
        advice = FOREIGN.get(path[:length])
        if advice is not None:
            return path[:length], advice
    return None
