"""Edits in JSON that leave the rest alone."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memsearch.config.errors import MemsearchError
from memsearch.hooks.install import jsontext

ODD = """{
    // what I like
    "model" : "sonnet",   "theme":'dark', /* both */
\t"hooks": { "Stop": [ {"hooks": [{"type":"command","command":"say 'done'"}]}, // mine
    ],
    },
    unquoted: 0x1F, // a number of JSON5
}
"""


def test_an_odd_file_keeps_every_character():
    once = jsontext.append_item(ODD, ("hooks", "Stop"), {"a": 1})
    once = jsontext.append_item(once, ("hooks", "SessionStart"), {"b": [2]})
    for piece in ("// what I like", "/* both */", "// mine", "0x1F, // a number of JSON5"):
        assert piece in once
    twice = jsontext.remove_item(once, ("hooks", "Stop"), 1)
    twice = jsontext.remove_item(twice, ("hooks", "SessionStart"), 0)
    twice = jsontext.prune(twice, ("hooks", "SessionStart"))
    assert twice == ODD


@pytest.mark.parametrize(
    ("text", "path", "value", "expected"),
    [
        ("{}", ("a",), 1, '{\n  "a": 1\n}'),
        ('{"a": 1}', ("b",), 2, '{"a": 1, "b": 2}'),
        ('{"a": 1}', ("a",), [], '{"a": []}'),
        ('{\n    "a": 1\n}', ("b", "c"), 2, '{\n    "a": 1,\n    "b": {\n        "c": 2\n    }\n}'),
        (
            '{\r\n\t"a": 1\r\n}',
            ("b",),
            {"c": 2},
            '{\r\n\t"a": 1,\r\n\t"b": {\r\n\t\t"c": 2\r\n\t}\r\n}',
        ),
        ('{"a": {"x": 1}, "a": {}}', ("a", "y"), 2, '{"a": {"x": 1}, "a": {\n  "y": 2\n}}'),
        ("{\n}\n", ("项",), "目", '{\n  "项": "目"\n}\n'),
    ],
)
def test_a_member_is_set(text, path, value, expected):
    assert jsontext.set_member(text, path, value) == expected


@pytest.mark.parametrize(
    "text", ["", "{", '{"a" 1}', '{"a": }', "[1, 2", '{"a": "x', "{} {}", "/* {}", "[" * 500]
)
def test_what_is_no_json_is_refused_with_its_line(text):
    with pytest.raises(MemsearchError, match="line 1"):
        jsontext.parse(text)


def test_what_is_in_the_way_is_named():
    with pytest.raises(MemsearchError, match=r"hooks is no object"):
        jsontext.set_member('{"hooks": []}', ("hooks", "Stop"), [])
    with pytest.raises(MemsearchError, match=r"hooks\.Stop is no list"):
        jsontext.append_item('{"hooks": {"Stop": 1}}', ("hooks", "Stop"), 1)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(st.text(max_size=4), values, max_size=4),
    values,
    st.sampled_from([None, 1, "\t"]),
)
@example({"\x85\xa0": None}, None, None)
@example({"\u2028 a": None}, {"b": 1}, None)
def test_what_is_put_in_and_taken_out_leaves_the_same_text(data, value, indent):
    data.pop("ours", None)
    text = json.dumps(data, ensure_ascii=False, indent=indent)
    made = jsontext.set_member(text, ("ours", "deep"), value)
    assert json.loads(made) == {**data, "ours": {"deep": value}}
    again = jsontext.prune(jsontext.remove_member(made, ("ours", "deep")), ("ours",))
    assert again == text


@given(st.lists(values, max_size=4), st.data())
def test_an_item_is_taken_out_wherever_it_stands(items, draw):
    text = json.dumps({"list": items}, ensure_ascii=False)
    made = jsontext.append_item(text, ("list",), {"ours": 1})
    assert json.loads(made)["list"] == [*items, {"ours": 1}]
    for index in range(len(items)):
        left = json.loads(jsontext.remove_item(text, ("list",), index))["list"]
        assert left == items[:index] + items[index + 1 :]
    assert jsontext.remove_item(made, ("list",), len(items)) == text
