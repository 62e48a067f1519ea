"""Which embedder the settings make."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home
from memsearch.config.schema import Embedding
from memsearch.sinks.embedders import create, identity
from memsearch.sinks.embedders.local import LocalEmbedder, prefixes
from memsearch.sinks.embedders.onnx import OnnxEmbedder
from memsearch.sinks.embedders.openai_api import OpenAIEmbedder
from memsearch.sinks.embedders.presets import DIMENSIONS, PRESETS


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(str(tmp_path))


CASES: list[tuple[dict[str, Any], str, int | None, bool]] = [
    ({}, "onnx/multilingual-e5-small-q4", 384, False),
    ({"model": "multilingual-e5-small"}, "onnx/multilingual-e5-small-q4", 384, False),
    ({"provider": "openai"}, "openai/text-embedding-3-small", 1536, True),
    ({"provider": "openai", "dimension": 256}, "openai/text-embedding-3-small@256", 256, True),
    ({"provider": "openai", "model": "mine"}, "openai/mine", None, True),
    ({"provider": "openai", "model": "text-embedding-3-large"}, "openai/text-embedding-3-large",
     3072, True),
    ({"provider": "ollama"}, "ollama/bge-m3", 1024, False),
    ({"provider": "ollama", "model": "bge-m3:567m"}, "ollama/bge-m3:567m", 1024, False),
    ({"provider": "ollama", "base_url": "http://10.0.0.7:11434/v1"}, "ollama/bge-m3", 1024, False),
    ({"provider": "voyage"}, "voyage/voyage-3.5", 1024, True),
    ({"provider": "jina"}, "jina/jina-embeddings-v3", 1024, True),
    ({"provider": "mistral"}, "mistral/mistral-embed", 1024, True),
    ({"provider": "google"}, "google/gemini-embedding-001@768", 768, True),
    ({"provider": "google", "dimension": 1536}, "google/gemini-embedding-001@1536", 1536, True),
    ({"provider": "local"}, "local/intfloat/multilingual-e5-small", None, False),
    ({"provider": "local", "model": "/models/x y"}, "local//models/x y", None, False),
]  # fmt: skip


@pytest.mark.parametrize(("given", "model", "dimension", "paid"), CASES)
def test_create_and_identity(
    home: Home, given: dict[str, Any], model: str, dimension: int | None, paid: bool
) -> None:
    settings = Embedding(**given)
    embedder = create(settings, home, {})
    assert (embedder.model, embedder.dimension, embedder.paid) == (model, dimension, paid)
    assert embedder.batch_size >= 1
    assert identity(settings) == model
    embedder.close()


def test_kinds(home: Home) -> None:
    assert isinstance(create(Embedding(), home, {}), OnnxEmbedder)
    assert isinstance(create(Embedding(provider="jina"), home, {}), OpenAIEmbedder)
    assert isinstance(create(Embedding(provider="local"), home, {}), LocalEmbedder)
    assert create(Embedding(provider="jina", batch_size=7), home, {}).batch_size == 7


def test_a_prefix_of_an_open_model_is_part_of_its_identity(home: Home) -> None:
    settings = Embedding(provider="ollama", model="nomic-embed-text:latest")
    assert create(settings, home, {}).model == identity(settings)
    assert identity(settings).startswith("ollama/nomic-embed-text:latest#")


@pytest.mark.parametrize(
    "given", [{"model": "nope"}, {"dimension": 512}, {"model": "bge-m3", "dimension": 384}]
)
def test_what_the_built_in_provider_has_not(home: Home, given: dict[str, Any]) -> None:
    for make in (lambda s: create(s, home, {}), identity):
        with pytest.raises(MemsearchError) as caught:
            make(Embedding(**given))
        assert caught.value.kind is ErrorClass.CONFIG
    if "model" in given:
        assert given["model"] in caught.value.message
    if "dimension" not in given:
        assert "multilingual-e5-small-q4" in caught.value.hint


def test_a_missing_extra_says_how_to_get_it(home: Home) -> None:
    if "sentence_transformers" in sys.modules:
        pytest.skip("it is installed")
    embedder = create(Embedding(provider="local"), home, {})
    with pytest.raises(MemsearchError) as caught:
        embedder.embed_query("x")
    assert caught.value.kind is ErrorClass.CONFIG
    assert "memsearch[local]" in caught.value.hint


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("intfloat/multilingual-e5-small", ("query: ", "passage: ")),
        ("/models/e5-base-v2/", ("query: ", "passage: ")),
        ("intfloat/multilingual-e5-large-instruct", ("", "")),
        ("BAAI/bge-m3", ("", "")),
    ],
)
def test_prefixes_of_local_models(model: str, expected: tuple[str, str]) -> None:
    assert prefixes(model) == expected


def key_of(settings: Embedding, home: Home, environ: dict[str, str]) -> str:
    embedder = create(settings, home, environ)
    assert isinstance(embedder, OpenAIEmbedder)
    return embedder._key()


def test_where_the_key_comes_from(home: Home) -> None:
    google = Embedding(provider="google")
    assert key_of(google, home, {"GEMINI_API_KEY": "a", "GOOGLE_API_KEY": "b"}) == "a"
    assert key_of(google, home, {"GOOGLE_API_KEY": "b"}) == "b"
    Path(home.env_file).write_text("GEMINI_API_KEY=from-file\n", encoding="utf-8")
    assert key_of(google, home, {}) == "from-file"
    named = Embedding(provider="google", api_key="env:MINE")
    assert key_of(named, home, {"MINE": "m", "GEMINI_API_KEY": "a"}) == "m"
    assert key_of(Embedding(provider="google", api_key="plain"), home, {}) == "plain"
    assert key_of(Embedding(provider="ollama"), home, {"OPENAI_API_KEY": "a"}) == ""


def test_a_missing_key_is_said_at_the_call_and_names_the_variable(home: Home) -> None:
    embedder = create(Embedding(provider="google"), home, {})
    with pytest.raises(MemsearchError) as caught:
        embedder.embed_query("x")
    assert caught.value.kind is ErrorClass.CREDENTIALS
    assert "GEMINI_API_KEY or GOOGLE_API_KEY" in caught.value.hint
    with pytest.raises(MemsearchError) as caught:
        create(Embedding(provider="jina", api_key="env:NOPE"), home, {}).embed_query("x")
    assert caught.value.kind is ErrorClass.CREDENTIALS
    assert "NOPE" in caught.value.message


def test_a_key_set_later_needs_no_new_embedder(home: Home) -> None:
    embedder = create(Embedding(provider="jina"), home, {})
    assert isinstance(embedder, OpenAIEmbedder)
    Path(home.env_file).write_text("JINA_API_KEY=now\n", encoding="utf-8")
    assert embedder._key() == "now"


def test_the_usual_key_does_not_go_to_another_host(home: Home) -> None:
    environ = {"OPENAI_API_KEY": "mine"}
    assert key_of(Embedding(provider="openai"), home, environ) == "mine"
    elsewhere = Embedding(provider="openai", base_url="https://somewhere.example/v1")
    assert key_of(elsewhere, home, environ) == ""
    asked = Embedding(
        provider="openai", base_url="https://x.example/v1", api_key="env:OPENAI_API_KEY"
    )
    assert key_of(asked, home, environ) == "mine"


def test_presets_are_consistent() -> None:
    for name, preset in PRESETS.items():
        assert preset.base_url == preset.base_url.rstrip("/")
        assert preset.input_tokens <= preset.batch_tokens
        assert DIMENSIONS.get(preset.model, preset.dimension) == preset.dimension
        assert bool(preset.key_names) is (name != "ollama")
        assert preset.encoding_format == ("base64" if name == "voyage" else "float")


def test_the_package_and_identity_import_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from memsearch.sinks.embedders import identity\n"
        "from memsearch.config.schema import Embedding\n"
        "identity(Embedding()), identity(Embedding(provider='jina'))\n"
        "heavy = ('numpy', 'openai', 'onnxruntime', 'onnx', 'tokenizers', 'pydantic')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
