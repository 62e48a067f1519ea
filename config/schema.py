"""Every setting: its name, type, range, default and meaning, in one tree.

The descriptions here are what ``memsearch config init`` writes and what
``docs/configuration.md`` shows; a test holds the latter to this file.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field, structs

from memsearch.config import checks
from memsearch.config.errors import ErrorClass, MemsearchError

#: Longest time of a setting in seconds: a day. Longer is a slip, not a wish.
MAX_SECONDS = 86_400

#: Longest time of a setting in minutes: a week.
MAX_MINUTES = 10_080

#: Most tokens of a day that can be meant; SQLite's integers end at 9.2e18.
MAX_TOKENS = 1_000_000_000_000

#: Longest chunk in characters: four UTF-8 bytes each must fit Milvus' VARCHAR of 65,535 bytes.
MAX_CHUNK = 16_000

#: Names of the settings that are secrets; a test holds this to the ``secret`` marks.
SECRET_NAMES = frozenset({"token", "api_key"})

#: A key or token. ``secret`` keeps it out of everything that is printed.
Secret = Annotated[str, Meta(extra={"secret": True, "check": checks.variable})]

#: The base address of an HTTP API.
Endpoint = Annotated[str, Meta(extra={"check": checks.endpoint})]

Minutes = Annotated[float, Meta(ge=0, le=MAX_MINUTES)]
Texts = tuple[str, ...]

EmbeddingProvider = Literal[
    "onnx", "openai", "ollama", "voyage", "jina", "mistral", "google", "local"
]
SummarizeProvider = Literal["auto", "native", "openai", "extractive"]


class Table(Struct, frozen=True, kw_only=True):
    """A table of settings, whose ``repr`` (in a log, a traceback) shows no secret."""

    def __repr__(self) -> str:
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        shown = (
            f"{name}={'********' if value and name in SECRET_NAMES else repr(value)}"
            for name, value in values.items()
        )
        return f"{type(self).__name__}({', '.join(shown)})"


class Milvus(Table, frozen=True, kw_only=True):
    """Where the index lies."""

    uri: Annotated[
        str,
        Meta(
            description="A file of Milvus Lite (ends in .db), a Milvus server "
            "(http://host:19530) or Zilliz Cloud (https://…). A relative path lies in "
            "MEMSEARCH_HOME.",
            extra={"check": checks.milvus_uri, "shown": "milvus.db in MEMSEARCH_HOME"},
        ),
    ] = ""
    token: Annotated[
        Secret,
        Meta(
            description="Token of the server, or user:password. env:NAME reads a variable.",
            extra={"shown": "none"},
        ),
    ] = ""


class Embedding(Table, frozen=True, kw_only=True):
    """The model that turns text into vectors."""

    provider: Annotated[
        EmbeddingProvider,
        Meta(
            description="onnx runs on this machine, offline, Chinese and English. openai is any "
            "compatible API; ollama, voyage, jina, mistral and google are presets of it. local "
            "is sentence-transformers (extra: memsearch[local])."
        ),
    ] = "onnx"
    model: Annotated[
        str,
        Meta(description="The model's name.", extra={"shown": "the provider's"}),
    ] = ""
    base_url: Annotated[
        Endpoint,
        Meta(
            description="Address of an OpenAI-compatible API.",
            extra={"shown": "the provider's"},
        ),
    ] = ""
    api_key: Annotated[
        Secret,
        Meta(
            description="Key of the API. env:NAME reads a variable.",
            extra={"shown": "the provider's usual variable"},
        ),
    ] = ""
    batch_size: Annotated[
        int,
        Meta(
            ge=0,
            le=4096,
            description="Texts in one request.",
            extra={"shown": "0, the provider's"},
        ),
    ] = 0
    dimension: Annotated[
        int,
        Meta(
            ge=0,
            le=32_768,
            description="Numbers in a vector, for models that let you choose.",
            extra={"shown": "0, the model's"},
        ),
    ] = 0


class Chunking(Table, frozen=True, kw_only=True):
    """How Markdown is cut into chunks."""

    max_chunk_size: Annotated[
        int, Meta(ge=100, le=MAX_CHUNK, description="Longest chunk, in characters.")
    ] = 1500
    overlap_lines: Annotated[
        int,
        Meta(ge=0, le=100, description="Lines that the pieces of one long section share."),
    ] = 2


class Indexing(Table, frozen=True, kw_only=True):
    """Which files are documents."""

    ignore_files: Annotated[
        Texts,
        Meta(
            description="Names of files whose patterns leave files out, such as .gitignore. "
            "A project's own memory is indexed all the same."
        ),
    ] = ()
    exclude: Annotated[
        Texts, Meta(description="Patterns of files to leave out, as in .gitignore.")
    ] = ()


class Watch(Table, frozen=True, kw_only=True):
    """Following edits."""

    debounce_ms: Annotated[
        int,
        Meta(ge=0, le=600_000, description="Quiet time after an edit before it is indexed, in ms."),
    ] = 1500


class Capture(Table, frozen=True, kw_only=True):
    """What is remembered."""

    enabled: Annotated[bool, Meta(description="Whether turns are captured.")] = True
    tail: Annotated[
        bool,
        Meta(description="Also follow the transcripts of agents that have no hook installed."),
    ] = False
    exclude: Annotated[
        Texts,
        Meta(description='Projects that are never captured, as globs: ["~/private/*"].'),
    ] = ()
    journal_suffix: Annotated[
        str,
        Meta(
            description="Journals become YYYY-MM-DD.suffix.md, for folders that several "
            "machines sync (for instance the host's name).",
            extra={"check": checks.file_suffix, "shown": "none"},
        ),
    ] = ""


Enabled = Annotated[
    bool, Meta(description="Whether a model may write the notes; without, as extractive does.")
]
Provider = Annotated[
    SummarizeProvider,
    Meta(
        description="auto takes the agent's own command line where it answers, else an API where "
        "one is configured, else extractive. native is the agent's own command line, openai any "
        "compatible API, extractive uses no model."
    ),
]
Model = Annotated[
    str,
    Meta(description="The model's name.", extra={"shown": "the provider's"}),
]
BaseUrl = Annotated[
    Endpoint, Meta(description="Address of an OpenAI-compatible API.", extra={"shown": "OpenAI's"})
]
ApiKey = Annotated[
    Secret,
    Meta(
        description="Key of the API. env:NAME reads a variable.",
        extra={"shown": "OPENAI_API_KEY"},
    ),
]
Timeout = Annotated[
    float,
    Meta(
        ge=1,
        le=MAX_SECONDS,
        description="Longest time for one turn, in seconds.",
    ),
]
InputChars = Annotated[
    int,
    Meta(
        ge=500,
        le=10_000_000,
        description="Longest text of one turn that a model is given, in characters.",
    ),
]


class SummarizeOverride(Table, frozen=True, kw_only=True):
    """The same settings for one agent; what is not set here holds as in ``summarize``."""

    enabled: Enabled | None = None
    provider: Provider | None = None
    model: Model | None = None
    base_url: BaseUrl | None = None
    api_key: ApiKey | None = None
    timeout_seconds: Timeout | None = None
    max_input_chars: InputChars | None = None


class SummarizePlatforms(Table, frozen=True, kw_only=True):
    """By agent."""

    claude_code: SummarizeOverride = field(default=SummarizeOverride(), name="claude-code")
    codex: SummarizeOverride = SummarizeOverride()
    openclaw: SummarizeOverride = SummarizeOverride()
    opencode: SummarizeOverride = SummarizeOverride()


class Summarize(Table, frozen=True, kw_only=True):
    """Turns into notes."""

    enabled: Enabled = True
    provider: Provider = "auto"
    model: Model = ""
    base_url: BaseUrl = ""
    api_key: ApiKey = ""
    timeout_seconds: Timeout = 120.0
    max_input_chars: InputChars = 24_000
    platforms: SummarizePlatforms = SummarizePlatforms()

    def for_platform(self, platform: str) -> Summarize:
        """The settings that hold for one agent.

        A key belongs to the endpoint it was given for: an agent with a ``base_url`` of its own
        does not inherit ``api_key``, lest one provider's key be sent to another.

        Args:
            platform: ``claude-code``, ``codex``, ``openclaw`` or ``opencode``.

        Raises:
            MemsearchError: ``CONFIG``, for an agent that does not exist.
        """
        own = getattr(self.platforms, platform.replace("-", "_"), None)
        if not isinstance(own, SummarizeOverride):
            raise MemsearchError(
                f"There is no agent {platform!r}",
                kind=ErrorClass.CONFIG,
                hint="The agents are: claude-code, codex, openclaw, opencode",
            )
        values = {name: getattr(own, name) for name in own.__struct_fields__}
        values = {name: value for name, value in values.items() if value is not None}
        if "base_url" in values:
            values.setdefault("api_key", "")
        return structs.replace(self, **values)


class Search(Table, frozen=True, kw_only=True):
    """Answers."""

    top_k: Annotated[int, Meta(ge=1, le=1000, description="Results of a search.")] = 5
    fusion: Annotated[
        Literal["standardized", "rrf", "weighted"],
        Meta(
            description="How the meaning leg and the keyword leg are joined: standardized scores, "
            "reciprocal rank fusion, or fixed weights."
        ),
    ] = "standardized"
    cross_language: Annotated[
        bool,
        Meta(
            description="Whether a question finds text in the other language as well as in its "
            "own (Chinese, English)."
        ),
    ] = True
    reranker: Annotated[
        str,
        Meta(
            description="A cross-encoder that reorders the results (extra: memsearch[local]).",
            extra={"shown": "none"},
        ),
    ] = ""


class Retry(Table, frozen=True, kw_only=True):
    """When a stage fails."""

    attempts: Annotated[
        int, Meta(ge=1, le=100, description="Tries before a turn becomes a dead letter.")
    ] = 5
    base_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=MAX_SECONDS,
            description="Wait after the first failure, in seconds; it doubles with each.",
        ),
    ] = 60.0
    auto_replay: Annotated[
        bool,
        Meta(
            description="When a provider that failed answers again, replay its dead letters of "
            "the last 7 days, once."
        ),
    ] = True
    keep_days: Annotated[
        int, Meta(ge=1, le=36_500, description="Days that texts of finished work are kept.")
    ] = 30


class Budget(Table, frozen=True, kw_only=True):
    """What summaries may cost."""

    daily_tokens: Annotated[
        int,
        Meta(
            ge=0,
            le=MAX_TOKENS,
            description="Tokens a day; then turns wait until the day turns. 0 is no limit.",
        ),
    ] = 2_000_000


class Redact(Table, frozen=True, kw_only=True):
    """Secrets in turns, beyond what is known without settings."""

    patterns: Annotated[
        Texts,
        Meta(
            description="Regular expressions of further secrets.",
            extra={"check": checks.pattern},
        ),
    ] = ()
    allow: Annotated[
        Texts,
        Meta(
            description="Regular expressions of what looks like a secret and is none.",
            extra={"check": checks.pattern},
        ),
    ] = ()


class Workers(Table, frozen=True, kw_only=True):
    """The background process."""

    autostart: Annotated[
        bool, Meta(description="Whether a hook or a search starts the workers.")
    ] = True
    idle_exit_minutes: Annotated[
        Minutes, Meta(description="They end after so long without work. 0 is never.")
    ] = 30.0
    model_idle_minutes: Annotated[
        Minutes, Meta(description="Model and store are let go after so long. 0 is never.")
    ] = 10.0
    concurrency: Annotated[
        int, Meta(ge=1, le=64, description="Threads for all stages but summaries.")
    ] = 2
    summarize_concurrency: Annotated[int, Meta(ge=1, le=64, description="Summaries at a time.")] = 4


class Compact(Table, frozen=True, kw_only=True):
    """Old journals into digests."""

    schedule: Annotated[
        Literal["off", "daily", "weekly", "monthly"],
        Meta(description="How often the workers compact by themselves."),
    ] = "off"
    older_than_days: Annotated[
        int, Meta(ge=1, le=36_500, description="Age from which a journal is old.")
    ] = 30


class ProjectSettings(Table, frozen=True, kw_only=True):
    """How folders become projects."""

    isolate_worktrees: Annotated[
        bool, Meta(description="Whether each linked git worktree has a memory of its own.")
    ] = False


class ProjectOverride(Table, frozen=True, kw_only=True):
    """What the user sets for one project, by its path."""

    collection: Annotated[
        str,
        Meta(
            description="Name of the project's collection, for a team that shares a server.",
            extra={"check": checks.collection, "shown": "derived from the path"},
        ),
    ] = ""


class Settings(Table, frozen=True, kw_only=True):
    """All settings."""

    milvus: Milvus = Milvus()
    embedding: Embedding = Embedding()
    chunking: Chunking = Chunking()
    indexing: Indexing = Indexing()
    watch: Watch = Watch()
    capture: Capture = Capture()
    summarize: Summarize = Summarize()
    search: Search = Search()
    retry: Retry = Retry()
    budget: Budget = Budget()
    redact: Redact = Redact()
    workers: Workers = Workers()
    compact: Compact = Compact()
    project: ProjectSettings = ProjectSettings()
    projects: dict[str, ProjectOverride] = {}

    def collections(self) -> dict[str, str]:
        """Chosen collections by project path, as ``project.resolve`` takes them."""
        return {path: own.collection for path, own in self.projects.items() if own.collection}


#: What a project's own file may set; a cloned repository is not the user.
PROJECT_KEYS = (
    ("chunking",),
    ("watch", "debounce_ms"),
    ("indexing",),
    ("search", "top_k"),
    ("capture", "enabled"),
    ("summarize", "enabled"),
)
