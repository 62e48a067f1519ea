"""pandas is put off, and is the real one for whoever uses it."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
from memsearch.sinks.milvus_client import import_pymilvus
pymilvus = import_pymilvus()
import milvus_lite
assert not [name for name in sys.modules if name.partition(".")[0] == "pandas"]
from pymilvus.orm import schema, types
assert not isinstance([1], schema.pd.DataFrame)
assert types.infer_dtype_bydata(1.5) == pymilvus.DataType.DOUBLE  # asks pandas
import pandas
assert pandas.DataFrame({"a": [1]}).shape == (1, 1)
assert isinstance(pandas.DataFrame(), schema.pd.DataFrame)
assert not isinstance(pandas.Series([1]), schema.pd.DataFrame)
assert not isinstance([1], schema.pd.DataFrame)
assert schema.pd.concat is pandas.concat
print("done")
"""

LOADED = """
import sys, pandas
from memsearch.sinks.milvus_client import import_pymilvus
import_pymilvus()
from pymilvus.orm import schema
assert schema.pd is pandas
print("done")
"""


ARROW = """
import sys
from memsearch.sinks import lazy_pandas
lazy_pandas.tell_arrow()
import pyarrow
table = pyarrow.table({"a": pyarrow.array([1, 2]), "b": ["x", "y"]})
assert table.to_pydict()["b"] == ["x", "y"]
assert "pandas" not in sys.modules
frame = table.to_pandas()
assert type(frame).__module__.startswith("pandas")
assert pyarrow.table(frame).num_rows == 2
assert pyarrow.array(frame["a"]).to_pylist() == [1, 2]
print("done")
"""


def test_arrow_asks_for_it_when_it_is_needed() -> None:
    assert run(ARROW) == "done"


def test_pymilvus_is_imported_without_it() -> None:
    assert run(SCRIPT) == "done"


def test_a_program_that_uses_it_shares_it() -> None:
    assert run(LOADED) == "done"


def run(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
