"""The projects that the log knows: those that a hook, a search or an index has told of."""

from __future__ import annotations

from memsearch.config.project import Project
from memsearch.pipeline.log import EventLog


def known_projects(log: EventLog, latest: int | None = None) -> list[Project]:
    """The known projects, those with the latest work first.

    Args:
        log: The event log.
        latest: How many at the most; all when None.
    """
    return [
        Project(
            root=row["root"],
            memory_dir=row["memory_dir"],
            base=row["base"],
            collection=row["collection"],
        )
        for row in log.rows(
            "SELECT * FROM projects ORDER BY seen DESC, memory_dir LIMIT ?",
            (-1 if latest is None else latest,),
        )
    ]
