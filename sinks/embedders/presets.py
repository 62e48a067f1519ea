"""What is known of the models and endpoints that have a name of their own; nothing heavy.

The endpoints are OpenAI-compatible, and each differs from OpenAI's somewhere: the name of the
field for a shorter vector, which ``encoding_format`` it takes, how it wants to hear that a text
is a question. Sources, read when this was written:

- OpenAI: https://platform.openai.com/docs/api-reference/embeddings/create (2,048 inputs and
  300,000 tokens a request, 8,192 an input)
- Ollama: https://docs.ollama.com/api/openai-compatibility
- Voyage: https://docs.voyageai.com/reference/embeddings-api (1,000 inputs, 320,000 tokens for
  voyage-3.5; ``encoding_format`` is null or base64, "float" is a 400; ``output_dimension``)
- Jina: https://api.jina.ai/openapi.json (``task`` for questions and passages)
- Mistral: https://docs.mistral.ai/api/endpoint/embeddings ("Too many inputs" above 256, "Too
  many tokens in batch. Max is 16384")
- Google: https://ai.google.dev/gemini-api/docs/openai ("at most 100 requests can be in one
  batch"; 2,048 tokens an input; a shortened vector is not of length 1)
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Literal

#: The built-in model: its name in the settings, its identity, the length of its vectors.
BUILT_IN = "multilingual-e5-small-q4"
BUILT_IN_IDENTITY = f"onnx/{BUILT_IN}"
BUILT_IN_DIMENSION = 384

#: The model that is fetched when it is asked for: the same of it. The revision is part of it.
BGE_M3 = "bge-m3"
BGE_M3_IDENTITY = f"onnx/{BGE_M3}-int8-25b9af8e"
BGE_M3_DIMENSION = 1024

#: What the provider ``local`` takes: the full-precision parent of the built-in model.
LOCAL_MODEL = "intfloat/multilingual-e5-small"


@dataclass(frozen=True, slots=True)
class Preset:
    """An endpoint and its habits.

    ``key_names`` are the variables that usually hold its key, the first that is set counts;
    none means that it needs no key. ``dimension`` is that of ``model``; ``ask_dimension`` says
    that it has to be asked for. ``batch_size`` counts texts, ``batch_tokens`` and
    ``input_tokens`` are bounds for our estimate, with room for its error. ``query`` and
    ``passage`` are fields added to the request's body.
    """

    base_url: str
    model: str
    dimension: int
    key_names: tuple[str, ...] = ()
    ask_dimension: bool = False
    dimension_field: str = "dimensions"
    encoding_format: Literal["float", "base64"] = "float"
    batch_size: int = 64
    batch_tokens: int = 100_000
    input_tokens: int = 6_000
    query: dict[str, str] = field(default_factory=dict)
    passage: dict[str, str] = field(default_factory=dict)


PRESETS: dict[str, Preset] = {
    "openai": Preset(
        base_url="https://api.openai.com/v1",
        model="text-embedding-3-small",
        dimension=1536,
        key_names=("OPENAI_API_KEY",),
        batch_size=256,
        batch_tokens=200_000,
    ),
    "ollama": Preset(
        base_url="http://localhost:11434/v1",
        # Several languages in one space and no prefixes; `ollama pull bge-m3` fetches it.
        model="bge-m3",
        dimension=1024,
        batch_size=32,
    ),
    "voyage": Preset(
        base_url="https://api.voyageai.com/v1",
        model="voyage-3.5",
        dimension=1024,
        key_names=("VOYAGE_API_KEY",),
        dimension_field="output_dimension",
        encoding_format="base64",
        batch_size=256,
        batch_tokens=100_000,
        input_tokens=30_000,
        query={"input_type": "query"},
        passage={"input_type": "document"},
    ),
    "jina": Preset(
        base_url="https://api.jina.ai/v1",
        model="jina-embeddings-v3",
        dimension=1024,
        key_names=("JINA_API_KEY",),
        batch_size=128,
        batch_tokens=100_000,
        query={"task": "retrieval.query"},
        passage={"task": "retrieval.passage"},
    ),
    "mistral": Preset(
        base_url="https://api.mistral.ai/v1",
        model="mistral-embed",
        dimension=1024,
        key_names=("MISTRAL_API_KEY",),
        dimension_field="output_dimension",
        batch_size=128,
        batch_tokens=10_000,
    ),
    "google": Preset(
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        model="gemini-embedding-001",
        dimension=768,
        key_names=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        # Unasked it gives 3,072 numbers, four times the index for hardly a better answer.
        ask_dimension=True,
        batch_size=100,
        input_tokens=2_000,
    ),
}

#: Vectors of other models of these endpoints, so that the index can be made before the first
#: answer. A model that is not here tells its dimension with its first answer.
DIMENSIONS: dict[str, int] = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
    "bge-m3": 1024,
    "nomic-embed-text": 768,
    "mxbai-embed-large": 1024,
    "voyage-3.5": 1024,
    "voyage-3.5-lite": 1024,
    "voyage-3-large": 1024,
    "voyage-code-3": 1024,
    "voyage-4": 1024,
    "voyage-4-lite": 1024,
    "voyage-4-large": 1024,
    "jina-embeddings-v3": 1024,
    "mistral-embed": 1024,
}

#: Prefixes that open models were trained with, by the name without tag: query, passage.
PREFIXES: dict[str, tuple[str, str]] = {
    "nomic-embed-text": ("search_query: ", "search_document: "),
    "mxbai-embed-large": ("Represent this sentence for searching relevant passages: ", ""),
}


def identity(provider: str, model: str, asked_dimension: int, passage_prefix: str) -> str:
    """The name under which the cache and the index keep a model's vectors.

    Whatever makes other vectors makes another identity: ``openai/text-embedding-3-small``,
    ``google/gemini-embedding-001@768`` (a length that was asked for),
    ``ollama/nomic-embed-text#6f2e9a1b`` (a prefix put before stored texts).

    Args:
        provider: As in the settings.
        model: The model's name at the provider.
        asked_dimension: 0 when the model's own length is taken.
        passage_prefix: Empty for none.
    """
    name = f"{provider}/{model}"
    if asked_dimension:
        name += f"@{asked_dimension}"
    if passage_prefix:
        name += f"#{hashlib.sha256(passage_prefix.encode()).hexdigest()[:8]}"
    return name
