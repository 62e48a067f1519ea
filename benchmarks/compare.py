"""The same work by this checkout and by the well-known memsearch 0.4.23, in one run.

    python benchmarks/compare.py [--files 800] [--runs 7] [--other PYTHON] [--python PYTHON]
                                 [--no-recall] [--json]

Both index the same Markdown into a Milvus Lite of their own. Seconds are of whole processes:

1. an index of everything, one where nothing changed, and one after a line was put at the top
   of one file: seconds, and requests and texts sent to the embedding endpoint (a stub on a
   socket, ten sections to a file);
2. a search, median of interleaved runs, with our worker running (the other has none);
3. five searches and an index at once: how many succeed;
4. recall (``tests/data/recall``): hit@5 of both with the vectors of one and the same model, our
   built-in one, which the other asks over an endpoint that serves it.

``--other`` names an interpreter that has it; without it ``memsearch==0.4.23`` is installed from
the package index into a virtual environment that is removed afterwards.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

from enqueue import install_whole
from stub_llm import StubLLM

OTHER = "memsearch==0.4.23"
#: Sections of a file.
SECTIONS = 10
#: Length of the stub's vectors, as of the built-in model.
DIMENSION = 384
QUESTIONS = ("why was the lease of the parser renamed", "令牌缓存为什么失效", "getToken_4711")

#: Searches all questions of a set with the other's Python API; the results' texts as JSON.
ASK = """
import asyncio, json, sys
from memsearch import MemSearch
folder, uri, url, questions = sys.argv[1], sys.argv[2], sys.argv[3], json.load(sys.stdin)
async def run():
    memory = MemSearch([folder], embedding_provider="openai", embedding_model="m",
                       embedding_base_url=url, embedding_api_key="k", milvus_uri=uri)
    await memory.index()
    return [[hit["content"] for hit in await memory.search(q, top_k=5)] for q in questions]
print(json.dumps(asyncio.run(run())))
"""


class Tool:
    """One of the two: how its commands are run, and where its index lies."""

    def __init__(self, name: str, python: Path, folder: Path, url: str) -> None:
        self.name = name
        self.home = folder / name
        self.project = self.home / "project"
        self.memory = self.project / ".memsearch" / "memory"
        self.memory.mkdir(parents=True)
        self._command = str(python.parent / "memsearch")
        self._options: list[str] = []
        self.environ = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
        }
        if name == "ours":
            self.environ |= {
                "MEMSEARCH_HOME": str(self.home / ".memsearch"),
                "MEMSEARCH_WORKERS__AUTOSTART": "false",
                "MEMSEARCH_EMBEDDING__PROVIDER": "openai",
                "MEMSEARCH_EMBEDDING__MODEL": "stub-embed",
                "MEMSEARCH_EMBEDDING__BASE_URL": url,
                "MEMSEARCH_EMBEDDING__API_KEY": "sk-test",
            }
        else:
            self._options = ["--provider", "openai", "--model", "stub-embed", "--base-url", url]
            self._options += ["--api-key", "sk-test", "--milvus-uri", str(self.home / "index.db")]

    def arguments(self, *words: str) -> list[str]:
        """A command line."""
        return [self._command, *words, *(self._options if words[0] in ("index", "search") else [])]

    def index(self) -> list[str]:
        """The command line of an index."""
        return self.arguments("index", *([] if self.name == "ours" else [str(self.memory)]))

    def search(self, question: str) -> list[str]:
        """The command line of a search."""
        return self.arguments("search", question, "--top-k", "5", "--json-output")

    def run(self, arguments: list[str]) -> tuple[float, subprocess.CompletedProcess[bytes]]:
        """Seconds that a command takes, and what came of it."""
        started = time.perf_counter()
        done = subprocess.run(
            arguments, cwd=self.project, env=self.environ, capture_output=True, check=False
        )
        return time.perf_counter() - started, done


def note(number: int) -> str:
    """A file of the memory."""
    return "\n".join(
        f"## Step {number}.{part}\n\n- The lease of parser {number}.{part} was renamed to"
        f" getToken_{number * SECTIONS + part}, since the cache kept old ones\n"
        f"- 用户要求把第 {number}.{part} 步的缓存改成按令牌失效\n"
        for part in range(SECTIONS)
    )


def succeeded(done: subprocess.CompletedProcess[bytes]) -> bool:
    """Whether a search answered with results."""
    if done.returncode != 0:
        return False
    try:
        return len(json.loads(done.stdout)) > 0
    except ValueError:
        return False


def measure(tools: list[Tool], stub: StubLLM, files: int, runs: int) -> dict[str, Any]:
    """Points 1 to 3, by tool."""
    found: dict[str, dict[str, Any]] = {tool.name: {} for tool in tools}

    def counted(tool: Tool, name: str) -> None:
        before = len(stub.of("embeddings"))
        seconds, done = tool.run(tool.index())
        assert done.returncode == 0, done.stderr.decode()[-2000:]
        sent = stub.of("embeddings")[before:]
        texts = sum(len(request.body["input"]) for request in sent)
        found[tool.name][name] = {"seconds": seconds, "requests": len(sent), "texts": texts}

    for tool in tools:
        for number in range(files):
            (tool.memory / f"note-{number}.md").write_text(note(number), encoding="utf-8")
        counted(tool, "index of everything")
        counted(tool, "index, nothing changed")
        first = tool.memory / "note-0.md"
        first.write_text("A line at the top.\n\n" + note(0), encoding="utf-8")
        counted(tool, "index, a line at the top of a file")
    with working(tools):
        seconds: dict[str, list[float]] = {tool.name: [] for tool in tools}
        for run in range(-1, runs):
            for tool in tools:
                took, done = tool.run(tool.search(QUESTIONS[run % len(QUESTIONS)]))
                assert succeeded(done), done.stderr.decode()[-2000:]
                if run >= 0:  # the first one opens the index
                    seconds[tool.name].append(took)
        for tool in tools:
            found[tool.name]["search"] = {"seconds": statistics.median(seconds[tool.name])}
            (tool.memory / "new.md").write_text(note(files), encoding="utf-8")
            commands = [tool.index()] + [tool.search(QUESTIONS[n % 3]) for n in range(5)]
            with ThreadPoolExecutor(len(commands)) as pool:
                done_all = [done for _, done in pool.map(tool.run, commands)]
            good = int(done_all[0].returncode == 0) + sum(map(succeeded, done_all[1:]))
            found[tool.name]["five searches and an index at once"] = {"succeeded": good}
    return found


@contextlib.contextmanager
def working(tools: list[Tool]) -> Iterator[None]:
    """Our worker runs."""
    (ours,) = (tool for tool in tools if tool.name == "ours")
    ours.run(ours.arguments("workers", "start"))
    try:
        yield
    finally:
        ours.run(ours.arguments("workers", "stop"))


# -- recall ---------------------------------------------------------------------------------


def recall(other: Path, folder: Path) -> dict[str, dict[str, str]]:
    """Hit@5 by group of questions and tool, with the same vectors."""
    import recall_sets as sets

    from memsearch.config.paths import Home
    from memsearch.config.schema import Embedding
    from memsearch.sinks.embedders import create
    from memsearch.sinks.store import MilvusStore

    home = Home(str(folder / "recall"))
    home.create()
    embedder = create(Embedding(), home, os.environ)
    found: dict[str, dict[str, str]] = {}
    with MilvusStore(home.milvus_db, lock_path=home.store_lock) as store, served(embedder) as url:
        made: dict[str, Callable[..., Any]] = {
            "bilingual": sets.bilingual_memory,
            "code": sets.code_memory,
        }
        for name, fill in made.items():
            memory = fill(store, embedder, home)
            groups = [group for of, group in sets.GROUPS if of == name]
            pairs = {group: sets.pairs_of(name, group) for group in groups}
            for source, text in sets.journal_texts(sets.texts_of(name)):
                path = folder / name / source
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            questions = [question for group in groups for question, _ in pairs[group]]
            memory_folder = folder / name / ".memsearch" / "memory"
            asked = subprocess.run(
                [str(other), "-c", ASK, str(memory_folder), str(folder / f"{name}.db"), url],
                input=json.dumps(questions),
                capture_output=True,
                encoding="utf-8",
                env={"PATH": os.environ.get("PATH", ""), "HOME": str(folder), "LANG": "C.UTF-8"},
                check=False,
            )
            assert asked.returncode == 0, asked.stderr[-2000:]
            theirs = iter(json.loads(asked.stdout.splitlines()[-1]))
            for group in groups:
                n = len(pairs[group])
                ours = sum(text in memory.search(question) for question, text in pairs[group])
                others = sum(
                    any(text in content for content in next(theirs)) for _, text in pairs[group]
                )
                found[group] = {"ours": f"{ours} / {n}", "other": f"{others} / {n}"}
    embedder.close()
    return found


@contextlib.contextmanager
def served(embedder: Any) -> Iterator[str]:
    """The built-in model as an OpenAI-compatible endpoint; one short line alone is a question."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
            if len(texts) == 1 and "\n" not in texts[0]:
                vectors = [embedder.embed_query(texts[0])]
            else:
                vectors = list(embedder.embed_passages(texts))
            data = [
                {"object": "embedding", "index": n, "embedding": vector.tolist()}
                for n, vector in enumerate(vectors)
            ]
            usage = {"prompt_tokens": 1, "total_tokens": 1}
            answer = json.dumps({"object": "list", "model": "m", "data": data, "usage": usage})
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_: Any) -> None:
            """Nothing: the table is what is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# -- the table ------------------------------------------------------------------------------


def table(found: dict[str, Any]) -> str:
    """The figures for a person."""
    rows = [("what", "ours", "0.4.23", "")]
    ours, other = found["ours"], found["other"]
    for name, mine in ours.items():
        for unit in mine:
            a, b = mine[unit], other[name][unit]
            ratio = f"{b / a:.1f} times" if unit == "seconds" else ""
            label = name if unit in ("seconds", "succeeded") else f"  {unit} sent"
            shown = [f"{value:.2f} s" if unit == "seconds" else str(value) for value in (a, b)]
            rows.append((label, shown[0], shown[1], ratio))
    for group, hits in found.get("recall", {}).items():
        rows.append((f"hit@5, {group}", hits["ours"], hits["other"], ""))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}  {d}".rstrip() for a, b, c, d in rows
    )


def main() -> int:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=800, help="files of ten chunks (800)")
    parser.add_argument("--runs", type=int, default=7, help="searches of each (7)")
    parser.add_argument("--other", type=Path, help="an interpreter that has memsearch 0.4.23")
    parser.add_argument("--python", type=Path, help="an interpreter that has this memsearch")
    parser.add_argument("--no-recall", action="store_true", help="leave point 4 out")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memsearch-bench-") as name:
        folder = Path(name)
        other = arguments.other
        if other is None:
            venv = folder / "other-venv"
            subprocess.run([sys.executable, "-m", "venv", venv], check=True)
            other = venv / "bin" / "python"
            pip = [other, "-m", "pip", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "install", OTHER], check=True)
        python = arguments.python or install_whole(folder)
        with StubLLM(dimension=DIMENSION) as stub:
            tools = [
                Tool("ours", python.absolute(), folder, stub.openai_url),
                Tool("other", other.absolute(), folder, stub.openai_url),
            ]
            found = measure(tools, stub, arguments.files, arguments.runs)
        if not arguments.no_recall:
            found["recall"] = recall(other.absolute(), folder)
    print(json.dumps(found, indent=2, ensure_ascii=False) if arguments.json else table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
