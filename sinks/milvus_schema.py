"""The collection's schema, and what of a row, a name and an answer fits it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks.bm25 import K1, B
from memsearch.sinks.milvus_client import import_pymilvus
from memsearch.sinks.types import Hit, Row, Vectors

ID = "chunk_hash"
VECTOR = "embedding"
KEYWORDS = "keywords"
SPARSE = "sparse_vector"

#: How the vectors of a field are compared.
METRICS = {VECTOR: "COSINE", SPARSE: "BM25"}

#: Property of a collection that holds the index identity, as JSON.
IDENTITY_PROPERTY = "memsearch.identity"

_Type = Literal["VARCHAR", "INT64", "FLOAT_VECTOR", "SPARSE_FLOAT_VECTOR"]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the collection. ``max_bytes`` bounds a text in UTF-8 bytes: a server counts
    those, Milvus Lite counts characters, and the smaller bound holds on both."""

    name: str
    type: _Type
    max_bytes: int = 0


FIELDS = (
    Field(ID, "VARCHAR", 64),
    Field(VECTOR, "FLOAT_VECTOR"),
    Field("content", "VARCHAR", 65_535),
    Field(KEYWORDS, "VARCHAR", 65_535),
    Field(SPARSE, "SPARSE_FLOAT_VECTOR"),
    Field("source", "VARCHAR", 1024),
    Field("heading", "VARCHAR", 1024),
    Field("heading_level", "INT64"),
    Field("start_line", "INT64"),
    Field("end_line", "INT64"),
    Field("platform", "VARCHAR", 256),
    Field("session", "VARCHAR", 1024),
    Field("turn", "VARCHAR", 1024),
    Field("day", "INT64"),
    Field("kind", "VARCHAR", 64),
)

_TEXTS = tuple(field for field in FIELDS if field.type == "VARCHAR")
_NUMBERS = tuple(field for field in FIELDS if field.type == "INT64")

#: What an answer holds of each row.
HIT_FIELDS = [field.name for field in FIELDS if field.name not in (ID, VECTOR, KEYWORDS, SPARSE)]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_HASH = re.compile(r"[0-9a-f]{1,64}")
_INT64 = range(-(2**63), 2**63)


def build(client: Any, dimension: int, *, bm25: bool) -> Any:
    """The schema, as pymilvus takes it.

    Args:
        client: A ``MilvusClient``.
        dimension: Length of the vectors.
        bm25: Whether the server knows BM25 functions. An older one silently makes the
            collection without the function, and then cannot index its output, so for it both
            are left out.
    """
    pymilvus = import_pymilvus()
    types = pymilvus.DataType
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    for field in FIELDS:
        options: dict[str, Any] = {}
        if field.type == "VARCHAR":
            options["max_length"] = field.max_bytes
        if field.name == ID:
            options["is_primary"] = True
        elif field.name == VECTOR:
            options["dim"] = dimension
        elif field.name == KEYWORDS and bm25:
            options |= {"enable_analyzer": True, "analyzer_params": {"type": "standard"}}
        elif field.name == SPARSE and not bm25:
            continue
        schema.add_field(field.name, getattr(types, field.type), **options)
    if bm25:
        schema.add_function(
            pymilvus.Function(
                name="bm25",
                function_type=pymilvus.FunctionType.BM25,
                input_field_names=[KEYWORDS],
                output_field_names=[SPARSE],
            )
        )
    return schema


def indexes(client: Any, *, bm25: bool, uri: str) -> dict[str, Any]:
    """The index parameters per field, for a server.

    FLAT compares with every vector, so what is nearest is found for certain. Zilliz Cloud takes
    nothing but AUTOINDEX.

    Milvus Lite gets no index: without one it compares with every vector too. With FLAT it keeps
    a second copy of the vectors in memory and in a file, and a process killed while it writes
    that file leaves a collection that cannot be opened again; its AUTOINDEX is HNSW, whose
    recall falls and whose search parameters it ignores.
    """
    zilliz = "zilliz" in uri.lower()
    dense = client.prepare_index_params()
    dense.add_index(
        VECTOR, index_type="AUTOINDEX" if zilliz else "FLAT", metric_type=METRICS[VECTOR]
    )
    if not bm25:
        return {VECTOR: dense}
    sparse = client.prepare_index_params()
    sparse.add_index(
        SPARSE,
        index_type="AUTOINDEX" if zilliz else "SPARSE_INVERTED_INDEX",
        metric_type=METRICS[SPARSE],
        # The values of our own BM25, so that Lite and a server rank alike.
        params={"bm25_k1": K1, "bm25_b": B},
    )
    return {VECTOR: dense, SPARSE: sparse}


def is_ours(description: Mapping[str, Any]) -> bool:
    """Whether a collection has our schema.

    Args:
        description: What ``describe_collection`` says of it.
    """
    types = {field["name"]: getattr(field["type"], "name", "") for field in description["fields"]}
    wanted = {field.name: field.type for field in FIELDS}
    if SPARSE not in types:  # made by a server without BM25
        del wanted[SPARSE]
    return types == wanted


def has_our_fields(names: set[str]) -> bool:
    """The same, as far as the names of its fields can tell."""
    return names | {SPARSE} == {field.name for field in FIELDS}


def dimension_of(description: Mapping[str, Any]) -> int:
    """Length of a collection's vectors."""
    (field,) = (field for field in description["fields"] if field["name"] == VECTOR)
    return int(field["params"]["dim"])


def check_name(collection: str) -> None:
    """Refuse what Milvus does not take for a collection's name.

    Raises:
        MemsearchError: ``CONFIG``.
    """
    if not _NAME.fullmatch(collection):
        raise MemsearchError(
            f"{collection!r} cannot be the name of a collection",
            kind=ErrorClass.CONFIG,
            hint="letters, digits and _ only, 255 at most, no digit first",
        )


def check_hash(chunk_hash: str, *, shortest: int = 1) -> str:
    """An id or a prefix of one, in lower case.

    Raises:
        MemsearchError: ``BAD_REQUEST``, if it is none.
    """
    lowered = chunk_hash.lower()
    if len(lowered) < shortest or not _HASH.fullmatch(lowered):
        raise MemsearchError(
            f"{chunk_hash!r} is no chunk id",
            kind=ErrorClass.BAD_REQUEST,
            hint=f"an id is made of hex digits, {shortest} or more of them are enough"
            if shortest > 1
            else "an id is made of hex digits",
        )
    return lowered


def check_vector(vector: Vectors, dimension: int) -> Vectors:
    """A vector that the collection takes, as float32.

    Raises:
        MemsearchError: ``BAD_REQUEST``, for another length or what is no number.
    """
    if vector.shape != (dimension,):
        raise MemsearchError(
            f"a vector of shape {vector.shape} does not fit a collection of {dimension} numbers",
            kind=ErrorClass.BAD_REQUEST,
            hint="the model was changed: `memsearch index` makes the index anew",
        )
    if not np.isfinite(vector).all():
        raise MemsearchError("a vector holds what is not a number", kind=ErrorClass.BAD_REQUEST)
    return np.ascontiguousarray(vector, np.float32)


def row_data(row: Row, dimension: int) -> dict[str, Any]:
    """A row as pymilvus takes it.

    Raises:
        MemsearchError: ``BAD_REQUEST``, naming the field that does not fit.
    """
    if not _HASH.fullmatch(row.chunk_hash):
        check_hash(row.chunk_hash)
        raise _unfit(row, ID, "is not in lower case")
    data: dict[str, Any] = {VECTOR: check_vector(row.embedding, dimension)}
    for field in _TEXTS:
        value = data[field.name] = getattr(row, field.name)
        try:
            size = len(value.encode("utf-8"))
        except UnicodeEncodeError as error:
            raise _unfit(row, field.name, "is not valid Unicode") from error
        if size > field.max_bytes:
            raise _unfit(row, field.name, f"has {size} bytes, {field.max_bytes} are possible")
    for field in _NUMBERS:
        value = data[field.name] = getattr(row, field.name)
        if value not in _INT64:
            raise _unfit(row, field.name, "is too large a number")
    return data


def size_of(data: Mapping[str, Any]) -> int:
    """Bytes that a row takes in a request, nearly."""
    return int(data[VECTOR].nbytes) + sum(len(data[field.name].encode()) for field in _TEXTS)


def batches(
    rows: Sequence[dict[str, Any]], max_rows: int, max_bytes: int
) -> list[list[dict[str, Any]]]:
    """Rows in requests of bounded size. A row larger than ``max_bytes`` gets one of its own."""
    result: list[list[dict[str, Any]]] = []
    size = 0
    for row in rows:
        bytes_ = size_of(row)
        if not result or len(result[-1]) == max_rows or size + bytes_ > max_bytes:
            result.append([])
            size = 0
        result[-1].append(row)
        size += bytes_
    return result


def hit(key: str, score: float, entity: Mapping[str, Any]) -> Hit:
    """A row of an answer."""
    return Hit(chunk_hash=key, score=score, **{name: entity[name] for name in HIT_FIELDS})


def _unfit(row: Row, field: str, why: str) -> MemsearchError:
    return MemsearchError(
        f"the field {field} of a row of {row.source!r} {why}", kind=ErrorClass.BAD_REQUEST
    )
