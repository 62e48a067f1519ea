import hashlib
from dataclasses import replace

from memsearch.sinks.ids import chunk_hash, content_hash
from memsearch.sinks.types import Chunk

CHUNK = Chunk(
    source="笔记/a.md",
    heading="A",
    heading_level=1,
    start_line=3,
    end_line=7,
    content="# A\n文",
    content_hash=content_hash("# A\n文"),
)


def test_content_hash_is_sha256_of_utf8() -> None:
    assert content_hash("文") == hashlib.sha256("文".encode()).hexdigest()
    assert len(content_hash("")) == 64


def test_chunk_hash_is_what_the_design_says() -> None:
    name = f"markdown:笔记/a.md:3:7:{CHUNK.content_hash}:onnx/m"
    assert chunk_hash(CHUNK, "onnx/m") == hashlib.sha256(name.encode()).hexdigest()[:16]


def test_every_part_of_the_name_counts() -> None:
    variants = [
        chunk_hash(CHUNK, "m"),
        chunk_hash(CHUNK, "n"),
        chunk_hash(replace(CHUNK, source="b.md"), "m"),
        chunk_hash(replace(CHUNK, start_line=4), "m"),
        chunk_hash(replace(CHUNK, end_line=8), "m"),
        chunk_hash(replace(CHUNK, content_hash=content_hash("")), "m"),
    ]
    assert len(set(variants)) == len(variants)


def test_the_entry_s_own_data_does_not_count() -> None:
    assert chunk_hash(CHUNK, "m") == chunk_hash(replace(CHUNK, turn="t", day=20260305), "m")
