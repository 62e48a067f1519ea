"""Long-term memory for coding agents, kept in Markdown that a person can open, read and edit."""

# typing's own constant would cost every hook the import of typing; checkers know the name.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from memsearch.api import MemSearch
    from memsearch.config.errors import MemsearchError

__all__ = ["MemSearch", "MemsearchError", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    # Lazy: a hook imports this package on an agent's time.
    if name == "MemSearch":
        from memsearch.api import MemSearch

        return MemSearch
    if name == "MemsearchError":
        from memsearch.config.errors import MemsearchError

        return MemsearchError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
