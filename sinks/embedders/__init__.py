"""Text to vectors: the built-in model, OpenAI-compatible endpoints, sentence-transformers.

Importing this package loads nothing heavy; ``create`` imports what it makes, and what it makes
loads its model or opens its connections at its first call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks.embedders.presets import (
    BGE_M3,
    BGE_M3_DIMENSION,
    BGE_M3_IDENTITY,
    BUILT_IN,
    BUILT_IN_DIMENSION,
    BUILT_IN_IDENTITY,
    DIMENSIONS,
    LOCAL_MODEL,
    PREFIXES,
    PRESETS,
    Preset,
)
from memsearch.sinks.embedders.presets import identity as _identity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from memsearch.config.paths import Home
    from memsearch.config.schema import Embedding
    from memsearch.sinks.types import Embedder

__all__ = ["check_present", "create", "identity"]

#: Names in the settings that mean the fetched model, and the built-in one.
_BGE_M3_NAMES = (BGE_M3, "BAAI/bge-m3")
_BUILT_IN_NAMES = ("", BUILT_IN, "multilingual-e5-small", "intfloat/multilingual-e5-small")


def create(settings: Embedding, home: Home, environ: Mapping[str, str]) -> Embedder:
    """The embedder that the settings ask for.

    Args:
        settings: The section ``[embedding]``.
        home: Where models lie and where keys may be looked up.
        environ: The environment, for keys.

    Returns:
        An embedder; nothing has been loaded, sent or looked up yet.

    Raises:
        MemsearchError: ``CONFIG`` when the settings name a model that cannot be had;
            ``CREDENTIALS`` when ``base_url`` names a variable that is not set.
    """
    if settings.provider == "onnx":
        if _onnx_model(settings) == BGE_M3:
            from memsearch.sinks.embedders.bge_m3 import BgeM3Embedder

            return BgeM3Embedder(home.models)
        from memsearch.sinks.embedders.onnx import OnnxEmbedder

        return OnnxEmbedder(home.models)
    if settings.provider == "local":
        from memsearch.sinks.embedders.local import LocalEmbedder

        return LocalEmbedder(settings.model, batch_size=settings.batch_size)

    from memsearch.config.credentials import resolve_secret
    from memsearch.sinks.embedders.openai_api import OpenAIEmbedder

    choice = _choose(settings)
    preset = choice.preset
    base_url = resolve_secret(settings.base_url, home, environ) or preset.base_url
    own_endpoint = base_url.rstrip("/") == preset.base_url
    api_key, hint = _key(settings, preset if own_endpoint else None, home, environ)
    return OpenAIEmbedder(
        choice.model,
        base_url,
        api_key,
        name=settings.provider,
        key_hint=hint,
        batch_size=settings.batch_size or preset.batch_size,
        batch_tokens=preset.batch_tokens,
        input_tokens=preset.input_tokens,
        dimension=choice.dimension,
        ask_dimension=choice.asked_dimension > 0,
        dimension_field=preset.dimension_field,
        encoding_format=preset.encoding_format,
        query_body=preset.query,
        passage_body=preset.passage,
        query_prefix=choice.query_prefix,
        passage_prefix=choice.passage_prefix,
    )


def identity(settings: Embedding) -> str:
    """``create(settings, …).model``, without importing or making anything heavy.

    Raises:
        MemsearchError: ``CONFIG`` when the settings name a model that cannot be had.
    """
    if settings.provider == "onnx":
        return BGE_M3_IDENTITY if _onnx_model(settings) == BGE_M3 else BUILT_IN_IDENTITY
    if settings.provider == "local":
        return _identity("local", settings.model or LOCAL_MODEL, 0, "")
    choice = _choose(settings)
    return _identity(settings.provider, choice.model, choice.asked_dimension, choice.passage_prefix)


@dataclass(frozen=True, slots=True)
class _Choice:
    """What the settings and the preset come to."""

    preset: Preset
    model: str
    dimension: int | None
    asked_dimension: int  # 0: not asked for
    query_prefix: str
    passage_prefix: str


def _choose(settings: Embedding) -> _Choice:
    preset = PRESETS[settings.provider]
    model = settings.model or preset.model
    name = model.partition(":")[0]  # Ollama's tag, as in bge-m3:latest
    query_prefix, passage_prefix = PREFIXES.get(name, ("", ""))
    asked = settings.dimension
    if not asked and preset.ask_dimension and model == preset.model:
        asked = preset.dimension
    known = preset.dimension if model == preset.model else DIMENSIONS.get(name)
    return _Choice(preset, model, asked or known, asked, query_prefix, passage_prefix)


def check_present(settings: Embedding, home: Home) -> None:
    """Whether a model that has to be fetched first is here; told by its files alone.

    Raises:
        MemsearchError: ``CONFIG`` when it is not, or when there is no such model.
    """
    if settings.provider == "onnx" and _onnx_model(settings) == BGE_M3:
        from memsearch.sinks.embedders import hub
        from memsearch.sinks.embedders.pins import BGE_M3_FILES

        hub.require(BGE_M3_FILES, home.models)


def _onnx_model(settings: Embedding) -> str:
    """The name of the model of the provider ``onnx``.

    Raises:
        MemsearchError: ``CONFIG`` when it has no such model, or not of that dimension.
    """
    name = settings.model
    if name in _BGE_M3_NAMES:
        found, dimension = BGE_M3, BGE_M3_DIMENSION
    elif name in _BUILT_IN_NAMES:
        found, dimension = BUILT_IN, BUILT_IN_DIMENSION
    else:
        raise MemsearchError(
            f"the provider onnx has no model {name}",
            kind=ErrorClass.CONFIG,
            hint=f"it has {BUILT_IN} (leave embedding.model empty) and {BGE_M3};"
            " or set another provider",
        )
    if settings.dimension not in (0, dimension):
        raise MemsearchError(
            f"the model {found} has {dimension} dimensions, not {settings.dimension}",
            kind=ErrorClass.CONFIG,
            hint="leave embedding.dimension at 0",
        )
    return found


def _key(
    settings: Embedding, preset: Preset | None, home: Home, environ: Mapping[str, str]
) -> tuple[Callable[[], str], str]:
    """How the key is looked up, and what to say when there is none.

    The provider's usual variable is read for the provider's own endpoint alone: a key must
    not go to another host because a base_url was set.
    """
    from memsearch.config.credentials import read_env_file, resolve_secret

    if settings.api_key or preset is None or not preset.key_names:
        return lambda: resolve_secret(settings.api_key, home, environ), ""

    names = preset.key_names

    def look_up() -> str:
        from_file = read_env_file(home)
        return next(
            (key for name in names if (key := environ.get(name) or from_file.get(name))), ""
        )

    where = " or ".join(names)
    return look_up, f"set {where} in the environment or in {home.env_file}, or embedding.api_key"
