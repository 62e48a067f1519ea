"""The embedders at work: the real model, and endpoints on real sockets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks.embedders import e5_graph
from memsearch.sinks.embedders.onnx import MAX_WINDOWS, OnnxEmbedder

REFERENCE = json.loads(
    (Path(__file__).parents[1] / "data" / "e5_reference.json").read_text(encoding="utf-8")
)
TEXTS: dict[str, str] = REFERENCE["texts"]
#: Those that fit into one pass.
SHORT = {name: text for name, text in TEXTS.items() if not name.startswith("long")}
#: Least cosine with the vectors of the engine that the weights come with.
CLOSE = 0.999


@pytest.fixture(scope="module")
def model(models_dir: Path) -> Iterator[OnnxEmbedder]:
    embedder = OnnxEmbedder(str(models_dir))
    yield embedder
    embedder.close()


@pytest.mark.parametrize("name", REFERENCE["vectors"])
def test_passages_are_those_of_the_engine(model: OnnxEmbedder, name: str) -> None:
    vector = model.embed_passages([TEXTS[name]])[0]
    assert float(vector @ np.array(REFERENCE["vectors"][name]["passage"])) >= CLOSE


@pytest.mark.parametrize("name", [n for n in REFERENCE["vectors"] if not n.startswith("long")])
def test_questions_are_those_of_the_engine(model: OnnxEmbedder, name: str) -> None:
    vector = model.embed_query(TEXTS[name])
    assert float(vector @ np.array(REFERENCE["vectors"][name]["query"])) >= CLOSE


def test_shapes(model: OnnxEmbedder) -> None:
    assert model.model == "onnx/multilingual-e5-small-q4"
    assert (model.dimension, model.paid) == (384, False)
    vectors = model.embed_passages(list(SHORT.values()))
    assert vectors.shape == (len(SHORT), 384)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(SHORT)), abs=1e-5)
    assert model.embed_passages([]).shape == (0, 384)
    assert model.embed_query("").shape == (384,)
    assert np.linalg.norm(model.embed_query("")) == pytest.approx(1.0, abs=1e-5)


def test_a_vector_does_not_depend_on_its_company(model: OnnxEmbedder) -> None:
    together = model.embed_passages(list(SHORT.values()))
    for vector, text in zip(together, SHORT.values(), strict=True):
        assert float(vector @ model.embed_passages([text])[0]) > 0.9999


def test_a_long_passage_counts_to_its_end_and_a_question_to_its_510th_token(
    model: OnnxEmbedder,
) -> None:
    chinese = "第一段讲数据库连接池的配置。" * 60
    ending = chinese + "最后一段讲烤面包和酸面团的温度。" * 20
    bread = model.embed_query("烤面包")
    with_bread, without = model.embed_passages([ending, chinese]) @ bread
    assert with_bread > without + 0.02
    assert model.embed_query(chinese + "烤面包") == pytest.approx(model.embed_query(chinese))
    # Beyond the last window nothing changes any more.
    filler = "the queue retries " * (510 * MAX_WINDOWS)
    same = model.embed_passages([filler, filler + "sourdough bread"])
    assert same[0] == pytest.approx(same[1])


def test_meaning_crosses_languages(model: OnnxEmbedder) -> None:
    passages = model.embed_passages(
        [
            "User asked how the retry back off works; the agent set five attempts with jitter.",
            "The agent renamed the CSS class of the sidebar and centred the logo.",
            "The agent wrote a script that backs up the photos every night.",
        ]
    )
    for question in ("重试的退避策略是怎么定的？", "how do we wait between retries?"):
        assert int(np.argmax(passages @ model.embed_query(question))) == 0


def test_released_it_comes_back_the_same_and_threads_may_race(models_dir: Path) -> None:
    embedder = OnnxEmbedder(str(models_dir), threads=1)
    states = [embedder.loaded]
    before = embedder.embed_query("where is the lease kept?")
    states.append(embedder.loaded)
    embedder.release()
    states.append(embedder.loaded)
    assert states == [False, True, False]
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            for _ in range(5):
                assert embedder.embed_query("where is the lease kept?") == pytest.approx(before)
                embedder.embed_passages(["one", "two"])
        except BaseException as exc:
            failures.append(exc)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        embedder.release()
    for thread in threads:
        thread.join()
    embedder.close()
    assert failures == []


def test_a_folder_that_may_not_be_written_does_not_stop_a_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "models"
    folder.mkdir(mode=0o500)
    if os.geteuid() == 0:  # root may write anywhere

        def refuse(path: str, data: bytes) -> None:
            raise PermissionError(13, "Permission denied", path)

        monkeypatch.setattr(e5_graph, "write_atomic", refuse)
    embedder = OnnxEmbedder(str(folder))
    vector = embedder.embed_query(TEXTS["english"])
    embedder.close()
    assert float(vector @ np.array(REFERENCE["vectors"]["english"]["query"])) >= CLOSE


def test_a_full_disk_is_an_error_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, data: bytes) -> None:
        raise OSError(28, "No space left on device", path)

    monkeypatch.setattr(e5_graph, "write_atomic", refuse)
    with pytest.raises(MemsearchError) as caught:
        OnnxEmbedder(str(tmp_path)).embed_query("x")
    assert caught.value.kind is ErrorClass.DISK_FULL


FRESH = """
import json, sys
sys.addaudithook(lambda event, args: sys.exit(f"network: {event} {args}")
                 if event in ("socket.connect", "socket.getaddrinfo") else None)
from memsearch.sinks.embedders.onnx import OnnxEmbedder

def resident():
    with open("/proc/self/status", encoding="utf-8") as status:
        return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmRSS"))

embedder = OnnxEmbedder(sys.argv[1])
embedder.embed_query("hello")
sizes = [resident()]
embedder.embed_passages(["连接池 pool " * 40] * 40)
sizes.append(resident())
embedder.release()
sizes.append(resident())
print(json.dumps({"sizes": sizes, "onnx": "onnx" in sys.modules}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_fresh_process_stays_small_and_off_the_network(models_dir: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", FRESH, str(models_dir)], capture_output=True, text=True
    )
    assert done.stderr == ""
    facts = json.loads(done.stdout)
    loaded, worked, released = facts["sizes"]  # MB
    assert loaded < 220
    assert worked < 260
    assert released < 130
    assert not facts["onnx"]  # needed for the conversion alone
