"""What a request runs on: the store, the model and the settings of one home."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from memsearch.config.paths import Home
    from memsearch.config.settings import Settings
    from memsearch.sinks.types import Embedder, Store


class Access(Protocol):
    """Given by the workers' service, and by ``recall.backend`` where there is none.

    Thread-safe where several requests are answered at once.
    """

    @property
    def home(self) -> Home:
        """Whose memory it is."""
        ...

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment of the answering process."""
        ...

    def settings(self, project_root: str | None) -> Settings:
        """The settings that hold in a project; None for the user's alone.

        Raises:
            MemsearchError: ``CONFIG``, where they cannot be used.
        """
        ...

    def has_index(self) -> bool:
        """Whether there is an index at all, told without opening it."""
        ...

    def store(self) -> AbstractContextManager[Store | None]:
        """The index, open while the context lasts; None when there is none yet.

        Entering may wait for another process to close it. The result is not closed by the
        one who got it.

        Raises:
            MemsearchError: on entering, when it cannot be opened.
        """
        ...

    def model(self) -> str:
        """Identity of the model of ``embedder``, which may itself be impossible to have.

        Raises:
            MemsearchError: ``CONFIG`` when the settings name no model that exists.
        """
        ...

    def embedder(self) -> Embedder:
        """The model that questions are embedded with; nothing heavy is loaded yet.

        Raises:
            MemsearchError: ``CONFIG`` when no such model can be had.
        """
        ...
