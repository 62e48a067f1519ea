from __future__ import annotations

import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsearch.sources import lines
from memsearch.sources.lines import (
    NOT_AN_OBJECT,
    NOT_JSON,
    Shrinker,
    decode,
    read_backward,
    read_forward,
    read_line,
)


def forward(data: bytes, start: int = 0) -> list[lines.Line]:
    return list(read_forward(io.BytesIO(data), start))


@pytest.mark.parametrize(
    ("data", "start", "expected"),
    [
        (b"", 0, []),
        (b"a\n", 0, [(0, 2, b"a\n", True)]),
        (b"a\nb", 0, [(0, 2, b"a\n", True), (2, 3, b"b", False)]),
        (b"a\n\nb\n", 2, [(2, 3, b"\n", True), (3, 5, b"b\n", True)]),
        (b"a\r\nb\r\n", 0, [(0, 3, b"a\r\n", True), (3, 6, b"b\r\n", True)]),
        (b"a\n", 2, []),
    ],
)
def test_lines_come_with_their_places(
    data: bytes, start: int, expected: list[tuple[int, int, bytes, bool]]
) -> None:
    assert [tuple(line) for line in forward(data, start)] == expected


@given(
    st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"")), max_size=12),
    st.booleans(),
    st.integers(1, 9),
)
@settings(deadline=None)
def test_backward_gives_the_same_lines_as_forward(
    parts: list[bytes], closed: bool, block: int
) -> None:
    data = b"\n".join(parts) + (b"\n" if closed and parts else b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block)
        backward = list(read_backward(io.BytesIO(data), len(data)))
    assert backward[::-1] == forward(data)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=8), st.integers(1, 40))
@settings(deadline=None)
def test_backward_holds_no_line_above_the_bound(lengths: list[int], block: int) -> None:
    data = b"".join(b"x" * length + b"\n" for length in lengths)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block)
        patch.setattr(lines, "MAX_LINE_BYTES", 20)
        for line in read_backward(io.BytesIO(data), len(data)):
            size = line.end - line.offset
            assert line.whole
            assert (line.data is None) == (size > 20)
            if line.data is not None:
                assert line.data == data[line.offset : line.end]


def test_a_line_that_grows_while_it_is_read_is_not_split() -> None:
    file = io.BytesIO(b'{"a":1}\n{"b":')
    reader = read_forward(file, 0)
    assert next(reader).data == b'{"a":1}\n'
    assert next(reader).data == b'{"b":'
    position = file.tell()
    file.seek(0, io.SEEK_END)
    file.write(b"2}\n")
    file.seek(position)
    assert list(reader) == []


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"a": 1}\r\n', {"a": 1}),
        (b'\xef\xbb\xbf{"a": 1}\n', {"a": 1}),
        (b'\x00\x00\x00{"a": 1}\n', {"a": 1}),
        (b'{"a": "\xff\xfe"}\n', {"a": "��"}),
        (b"  \r\n", None),
        (b"\x00\x00", None),
        (b'{"a": ', NOT_JSON),
        (b"[" * 200_000, NOT_JSON),
        (b'{"a": ' + b"9" * 10_000 + b"}", NOT_JSON),
        (b"[1, 2]", NOT_AN_OBJECT),
        (b"3", NOT_AN_OBJECT),
        (b"null", NOT_AN_OBJECT),
    ],
)
def test_decode(data: bytes, expected: object) -> None:
    assert decode(data) == expected


def shrink(data: bytes, piece: int) -> bytes | None:
    shrinker = Shrinker()
    for start in range(0, len(data), piece):
        shrinker.feed(data[start : start + piece])
    return shrinker.result()


texts = st.text(alphabet=st.sampled_from('a"\\\n\t\x00é中😀\ud83d /u'), max_size=60)
values = st.recursive(
    texts | st.integers() | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@given(values, st.integers(1, 17), st.booleans())
@settings(deadline=None)
def test_shrinking_without_need_changes_nothing(value: object, piece: int, ascii_: bool) -> None:
    data = json.dumps(value, ensure_ascii=ascii_).encode("utf-8", "surrogatepass")
    assert shrink(data, piece) == data


@given(st.dictionaries(texts, values, max_size=4), st.integers(1, 17), st.integers(1, 30))
@settings(deadline=None)
def test_what_is_shrunk_is_still_json_and_a_beginning(
    value: dict[str, object], piece: int, room: int
) -> None:
    data = json.dumps(value).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "MAX_STRING_BYTES", room)
        small = shrink(data, piece)
    assert small is not None
    assert_beginning(json.loads(small), value)


def assert_beginning(small: object, value: object) -> None:
    if isinstance(value, str):
        assert isinstance(small, str)
        assert value.startswith(small)
    elif isinstance(value, list):
        assert isinstance(small, list)
        for one, other in zip(small, value, strict=True):
            assert_beginning(one, other)
    elif isinstance(value, dict):
        assert isinstance(small, dict)  # keys are cut too, and may fall together
    else:
        assert small == value


def test_a_line_of_many_megabytes_keeps_its_words_and_loses_its_image() -> None:
    record = {
        "type": "user",
        "message": {
            "content": [
                {"type": "image", "source": {"type": "base64", "data": "A" * 30_000_000}},
                {"type": "text", "text": "what is 这个 on the picture?"},
            ]
        },
        "uuid": "u1",
    }
    data = json.dumps(record, ensure_ascii=False).encode() + b"\n"
    after = b'{"type": "next"}\n'
    first, second = forward(data + after)
    assert (first.offset, first.end, second.offset) == (0, len(data), len(data))
    assert first.data is not None
    assert len(first.data) < lines.MAX_LINE_BYTES
    small = decode(first.data)
    assert isinstance(small, dict)
    assert small["uuid"] == "u1"
    assert small["message"]["content"][1]["text"] == "what is 这个 on the picture?"
    assert read_line(io.BytesIO(data + after), 0) == first


def test_a_line_of_a_million_short_strings_is_passed_over() -> None:
    data = json.dumps({"a": ["x"] * 1_000_000}).encode() + b"\n"
    first, second = forward(data + b"{}\n")
    assert first.data is None
    assert first.whole
    assert second.data == b"{}\n"


def test_a_megabyte_of_nothing_before_a_record_is_taken_off() -> None:
    data = b"\x00" * 5_000_000 + b'{"a": 1}\n'
    (line,) = forward(data)
    assert line.data is not None
    assert decode(line.data) == {"a": 1}
