"""Names of chunks: the same text at the same place under the same model has the same id."""

from __future__ import annotations

import hashlib

from memsearch.sinks.types import Chunk

#: Hex digits of a chunk's id.
CHUNK_HASH_DIGITS = 16


def content_hash(text: str) -> str:
    """The SHA-256 of a text in UTF-8, 64 hex digits; the key of the embedding cache."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def chunk_hash(chunk: Chunk, model: str) -> str:
    """The id of a chunk in the index.

    The first 16 hex digits of the SHA-256 of
    ``markdown:{source}:{start_line}:{end_line}:{content_hash}:{model}``, so that indexing
    what did not change writes the same rows again.

    Args:
        chunk: The chunk.
        model: Identity of the embedding model, as ``Embedder.model`` gives it.
    """
    name = (
        f"markdown:{chunk.source}:{chunk.start_line}:{chunk.end_line}:{chunk.content_hash}:{model}"
    )
    # A path of undecodable bytes holds lone surrogates, which strict UTF-8 refuses.
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:CHUNK_HASH_DIGITS]
