"""What the built-in embedder costs, and what each of its settings is worth.

    python benchmarks/embedder.py [--rounds N]

Each row is measured in a process of its own, several times in turn with the others. Times are
medians of milliseconds per text; the ratios compare processor time with the first row's, since
that hardly depends on what else the machine does. Memory is the resident set in MB (Linux):
after loading, at its peak, after work, and after the model was released.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Chunks of about 250 tokens, and journal entries of about 60, per measurement.
CHUNKS, ENTRIES = 24, 48
#: Questions per measurement.
QUERIES = 20

VARIANTS: dict[str, dict[str, Any]] = {
    "as shipped": {},
    "memory arena on": {"arena": True},
    "waiting threads spin": {"spin": True},
    "one thread": {"threads": 1},
    "one text a pass": {"MAX_BATCH": 1},
    "8 texts, 2048 tokens a pass": {"MAX_BATCH_TOKENS": 2048},
    "32 texts, 8192 tokens a pass": {"MAX_BATCH": 32, "MAX_BATCH_TOKENS": 8192},
    "no memory given back": {"trim": False},
    "tokenizers library": {"library": True},
}

ENGLISH = "Step {n}: the worker took lease {n} of the shard, wrote the offset and let it go. "
CHINESE = "第{n}步：工作进程取得分片的租约，写入偏移量，然后释放连接池。"


def texts(count: int, characters: int) -> list[str]:
    """Half English, half Chinese, each one different."""
    made = []
    for n in range(count):
        sentence, length = (ENGLISH, characters) if n % 2 else (CHINESE, characters // 2)
        made.append("".join(sentence.format(n=n * 100 + i) for i in range(40))[:length])
    return made


def memory(field: str) -> float:
    """A field of /proc/self/status in MB; 0 where there is none."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except FileNotFoundError:
        return 0.0
    return next(int(li.split()[1]) / 1024 for li in status.splitlines() if li.startswith(field))


def measure(models_dir: str, variant: dict[str, Any]) -> dict[str, float]:
    """One row, in this process."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # read when it is loaded
    import onnxruntime

    from memsearch.sinks.embedders import onnx

    for name in ("MAX_BATCH", "MAX_BATCH_TOKENS"):
        setattr(onnx, name, variant.get(name, getattr(onnx, name)))
    shipped = onnx.session_options

    def session_options(threads: int) -> Any:
        options = shipped(threads)
        options.enable_cpu_mem_arena = options.enable_mem_pattern = variant.get("arena", False)
        if variant.get("spin"):
            onnxruntime.set_default_logger_severity(3)  # the option is set twice, and it says so
            options.add_session_config_entry("session.intra_op.allow_spinning", "1")
        return options

    onnx.session_options = session_options
    if not variant.get("trim", True):
        onnx.trim = lambda: None
    if variant.get("library"):
        use_library()

    facts: dict[str, float] = {"bare": memory("VmRSS")}
    embedder = onnx.OnnxEmbedder(models_dir, threads=variant.get("threads"))
    start = time.perf_counter()
    embedder.load()
    facts["load"] = time.perf_counter() - start
    facts["loaded"] = memory("VmRSS")
    embedder.embed_query("warm")
    questions = [f"how does the retry of stage {n} back off?" for n in range(QUERIES)]
    work: dict[str, tuple[int, Callable[[], object]]] = {
        "query": (QUERIES, lambda: [embedder.embed_query(q) for q in questions]),
        "chunk": (CHUNKS, lambda: embedder.embed_passages(texts(CHUNKS, 700))),
        "entry": (ENTRIES, lambda: embedder.embed_passages(texts(ENTRIES, 180))),
    }
    for name, (count, do) in work.items():
        start, cpu = time.perf_counter(), time.process_time()
        do()
        facts[name] = (time.perf_counter() - start) / count * 1e3
        facts[f"{name} cpu"] = (time.process_time() - cpu) / count * 1e3
    facts["worked"], facts["peak"] = memory("VmRSS"), memory("VmHWM")
    embedder.release()
    facts["released"] = memory("VmRSS")
    return facts


def use_library() -> None:
    """Put the Unigram model of the tokenizers library in the place of ours."""
    import tokenizers

    from memsearch.sinks.embedders import e5_tokenizer

    class Library(e5_tokenizer.E5Tokenizer):
        def __init__(self, vocabulary: Any) -> None:
            self._replacements = vocabulary.replacements
            pairs = list(zip(vocabulary.pieces, vocabulary.scores, strict=True))
            self._unigram = tokenizers.models.Unigram(pairs, unk_id=vocabulary.unk)

        def encode(self, text: str, limit: int) -> list[int]:
            words = (" " + self.normalise(text)).replace("  ", " ")[1:].split(" ")
            return [t.id for w in words for t in self._unigram.tokenize("▁" + w)][:limit]

    e5_tokenizer.E5Tokenizer = Library


def run(models_dir: str, variant: dict[str, Any]) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", models_dir, json.dumps(variant)]
    answer = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    facts: dict[str, float] = json.loads(answer)
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as models_dir:
        first = run(models_dir, {})
        taken: dict[str, list[dict[str, float]]] = {name: [] for name in VARIANTS}
        for _ in range(rounds):
            for name, variant in VARIANTS.items():
                taken[name].append(run(models_dir, variant))
    print(f"first load, with the conversion: {first['load']:.2f} s\n")
    rows = {
        name: {key: statistics.median(r[key] for r in results) for key in results[0]}
        for name, results in taken.items()
    }
    base = rows["as shipped"]
    print(
        f"{'':30}{'load':>7}{'query':>15}{'chunk':>16}{'entry':>15}"
        f"{'loaded':>9}{'peak':>6}{'after':>7}{'released':>10}"
    )
    for name, row in rows.items():
        ratio = {key: row[f"{key} cpu"] / base[f"{key} cpu"] for key in ("query", "chunk", "entry")}
        print(
            f"{name:30}{row['load']:6.2f}s"
            f"{row['query']:7.1f}ms {ratio['query']:4.2f}x"
            f"{row['chunk']:8.1f}ms {ratio['chunk']:4.2f}x"
            f"{row['entry']:7.1f}ms {ratio['entry']:4.2f}x"
            f"{row['loaded']:9.0f}{row['peak']:6.0f}{row['worked']:7.0f}{row['released']:10.0f}"
        )
    print(f"\nMemory in MB; the interpreter with numpy and onnxruntime is {base['bare']:.0f}.")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(measure(sys.argv[2], json.loads(sys.argv[3]))))
    else:
        main()
