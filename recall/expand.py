"""Expand: the whole section around a chunk, from the Markdown file as it is now."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.project import Project, path_of
from memsearch.recall import freshness, origin, scan
from memsearch.recall.freshness import Unindexed
from memsearch.recall.origin import Written, turns_behind, turns_of
from memsearch.recall.requests import text_of
from memsearch.recall.scan import ChunkLimits
from memsearch.recall.scope import Setting, memory_of, setting_of
from memsearch.sinks.anchors import anchors_in
from memsearch.sinks.chunker import chunk_document
from memsearch.sinks.documents import read_document
from memsearch.sinks.ids import content_hash
from memsearch.sinks.journal_format import journal_day
from memsearch.sinks.sections import sections
from memsearch.sinks.types import Anchor, Chunk, Hit, Section

if TYPE_CHECKING:
    from memsearch.config.paths import Home
    from memsearch.recall.access import Access

#: Hex digits of a chunk's id that are asked for at least.
MIN_DIGITS = 8
#: Hex digits of a whole id.
ID_DIGITS = 16

_ID = re.compile(rf"[0-9a-f]{{{MIN_DIGITS},{ID_DIGITS}}}\Z")


@dataclass(frozen=True, slots=True)
class Expanded:
    """A chunk in its place.

    Attributes:
        hit: The chunk as it was found.
        project: Whose it is.
        path: The file, absolute.
        section: The section as it is now.
        content: The section's lines, heading and comments included.
        anchors: The anchors in it, in order.
        indexed: False when the index does not hold the chunk.
        foreign: True when not all of the section was written by this machine.
        notes: What changed since it was indexed.
    """

    hit: Hit
    project: Project
    path: str
    section: Section
    content: str
    anchors: tuple[Anchor, ...]
    indexed: bool
    notes: tuple[str, ...]
    foreign: bool

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "chunk_hash": self.hit.chunk_hash,
            "source": self.hit.source,
            "path": self.path,
            "project": self.project.root,
            "heading": self.section.heading,
            "heading_level": self.section.level,
            "start_line": self.section.line,
            "end_line": self.section.end_line,
            "content": self.content,
            "anchors": [anchor_dict(anchor) for anchor in self.anchors],
            "kind": self.hit.kind,
            "indexed": self.indexed,
            "foreign": self.foreign,
            "notes": list(self.notes),
        }


def is_id(text: str) -> bool:
    """Whether a text can be a chunk's id or the beginning of one."""
    return _ID.match(text.lower()) is not None


def anchor_dict(anchor: Anchor) -> dict[str, str]:
    """An anchor as JSON; ``path`` is written as in the journal."""
    return {
        "platform": anchor.platform,
        "session": anchor.session,
        "turn": anchor.turn,
        "path": anchor.path,
    }


def answer_expand(request: Mapping[str, Any], access: Access) -> dict[str, Any]:
    """Answer an ``expand`` request; see ``recall.requests``."""
    where = setting_of(request, access, everything=True)
    return expand(text_of(request, "chunk"), where, access).as_dict()


def expand(key: str, where: Setting, access: Access) -> Expanded:
    """Find a chunk and read its section.

    The request's own project is looked through first, then the other known ones, since a
    search of all projects gives their ids too. A chunk that is not indexed is found in the
    documents that the index lags behind on.

    Args:
        key: A chunk's id, or its unique beginning.
        where: What the request is answered in.
        access: The home's.

    Raises:
        MemsearchError: ``BAD_REQUEST`` when there is no such chunk or several; ``BAD_FILE``
            when its file is gone or lies where recall may not read.
    """
    key = key.strip().lower()
    if not is_id(key):
        raise MemsearchError(
            f"{key[:80]!r} is no chunk id",
            kind=ErrorClass.BAD_REQUEST,
            hint=f"give the chunk_hash of a search result, or its first {MIN_DIGITS} digits",
        )
    found, notes = _in_index(key, where, access)
    indexed = bool(found)
    if not found:
        found = _in_files(key, where, access)
    if not found:
        reason = "; ".join(notes)
        raise MemsearchError(
            f"There is no chunk {key}" + (f" ({reason})" if reason else ""),
            kind=ErrorClass.BAD_REQUEST,
            hint="search again: the id of a text changes when the text or its place does",
        )
    hit = found[0][1]
    if any(other.chunk_hash != hit.chunk_hash for _, other in found):
        raise MemsearchError(
            f"Several chunks begin with {key}",
            kind=ErrorClass.BAD_REQUEST,
            hint="give more digits: " + ", ".join(sorted({item.chunk_hash for _, item in found})),
        )
    project, path = _readable(found, where)
    return _place(hit, project, path, where, access.home, indexed=indexed, notes=notes)


def _in_index(
    key: str, where: Setting, access: Access
) -> tuple[list[tuple[Project, Hit]], tuple[str, ...]]:
    if not access.has_index():
        return [], ()
    collections = dict.fromkeys(project.collection for project in where.all_projects())
    try:
        with access.store() as store:
            for collection in collections if store else ():
                assert store is not None
                hit = store.get(collection, key)
                if hit is not None:
                    return [(project, hit) for project in where.projects(collection)], ()
    except MemsearchError as error:
        if error.kind is ErrorClass.BAD_REQUEST:
            raise  # the beginning of several ids
        return [], (f"the index could not be read: {error}",)
    return [], ()


def _in_files(key: str, where: Setting, access: Access) -> list[tuple[Project, Hit]]:
    """Chunks whose ids begin so, in documents that the index does not hold as they are."""
    limits = limits_of(where)
    model = access.model()
    for project in where.all_projects():
        exclude = access.settings(project.root).indexing.exclude
        files = memory_of(project, exclude, archive=True).files
        state = freshness.check(project, where.log, files)
        texts = scan.read(state.unindexed, model, limits)
        found = [
            (project, hit)
            for hits in texts.chunks.values()
            for hit in hits
            if hit.chunk_hash.startswith(key)
        ]
        if found:
            return found
    return []


def limits_of(where: Setting) -> ChunkLimits:
    """How the project's documents are cut."""
    chunking = where.settings.chunking
    return ChunkLimits(chunking.max_chunk_size, chunking.overlap_lines)


def _readable(found: Sequence[tuple[Project, Hit]], where: Setting) -> tuple[Project, str]:
    """The file of a chunk, in the first of its projects that has it."""
    source = found[0][1].source
    missing = ""
    for project, hit in found:
        if not allowed(project, hit.source, where):
            continue
        path = path_of(project, hit.source)
        if os.path.isfile(path):
            return project, path
        missing = path
    if missing:
        raise MemsearchError(
            f"{missing} is gone", kind=ErrorClass.BAD_FILE, hint="memsearch index forgets it"
        )
    raise MemsearchError(
        f"{source} lies outside every known memory folder and was not indexed by this machine",
        kind=ErrorClass.BAD_FILE,
        hint="index it here first: memsearch index PATH",
    )


def allowed(project: Project, source: str, where: Setting) -> bool:
    """Whether recall may read a document: real paths are compared, so that no link leads out.

    Allowed is what lies in a known project's memory or archive, and each document that this
    machine's log says it indexed: inside its project where its source is relative, and at
    that very place where it is absolute.
    """
    real = os.path.realpath(path_of(project, source))
    for known in where.all_projects():
        if _inside(real, known.memory_dir) or _inside(real, known.archive_dir):
            return True
    documents = where.log.documents_of(project.collection)
    if not any(document.source == source for document in documents):
        return False
    return real == source if os.path.isabs(source) else _inside(real, project.base)


def _inside(real: str, folder: str) -> bool:
    return real.startswith(os.path.realpath(folder).rstrip("/") + "/")


def _place(
    hit: Hit,
    project: Project,
    path: str,
    where: Setting,
    home: Home,
    *,
    indexed: bool,
    notes: tuple[str, ...],
) -> Expanded:
    text = read_document(path)
    limits = limits_of(where)
    document = Unindexed(project, hit.source, path, 0, 0, hit.kind == "archive")
    chunks = chunk_document(
        text,
        document.source,
        max_chunk_size=limits.max_chunk_size,
        overlap_lines=limits.overlap_lines,
        archived=document.archived,
    )
    line, moved = locate(hit, chunks)
    is_journal = journal_day(os.path.basename(path)) is not None
    found = section_at(sections(text, journal=is_journal), line) if line else None
    if found is None:
        raise MemsearchError(
            f"The text of this chunk is no longer in {path}",
            kind=ErrorClass.BAD_FILE,
            hint="search again; the index catches up with the file",
        )
    lines = text.split("\n")[found.line - 1 : found.end_line]
    body = "\n".join(lines).rstrip()
    anchors = tuple(anchors_in(body))
    (foreign,) = origin.foreign(
        home,
        [
            Written(
                project,
                turns_of(turns_behind(project, hit), (anchor.turn for anchor in anchors)),
            )
        ],
    )
    return Expanded(
        hit,
        project,
        path,
        found,
        body,
        anchors,
        indexed,
        notes + ((moved,) if moved else ()),
        foreign,
    )


def locate(hit: Hit, chunks: Sequence[Chunk]) -> tuple[int, str]:
    """The line at which a chunk lies now, and what changed; line 0 when it is nowhere.

    Args:
        hit: The chunk as it was indexed.
        chunks: The file's chunks as it is now.
    """
    wanted = content_hash(hit.content)
    same = [chunk for chunk in chunks if chunk.content_hash == wanted]
    for chunk in same:
        if (chunk.start_line, chunk.end_line) == (hit.start_line, hit.end_line):
            return chunk.start_line, ""
    if same:
        nearest = _nearest(hit, same)
        return nearest.start_line, f"The text has moved from line {hit.start_line} since"
    changed = "The text was edited since it was indexed; this is the section as it is now"
    turns = [chunk for chunk in chunks if hit.turn and chunk.turn == hit.turn]
    if turns:
        return _nearest(hit, turns).start_line, changed
    headed = [
        chunk
        for chunk in chunks
        if (chunk.heading, chunk.heading_level) == (hit.heading, hit.heading_level)
        # The same heading far away is another section: every minute's is "14:47".
        and (chunk.start_line <= hit.end_line and chunk.end_line >= hit.start_line)
    ]
    if headed:
        return _nearest(hit, headed).start_line, changed
    alone = [chunk for chunk in chunks if hit.heading and chunk.heading == hit.heading]
    if len({chunk.start_line for chunk in alone}) == 1:
        return alone[0].start_line, changed
    return 0, ""


def _nearest(hit: Hit, chunks: Iterable[Chunk]) -> Chunk:
    return min(chunks, key=lambda chunk: abs(chunk.start_line - hit.start_line))


def section_at(found: Sequence[Section], line: int) -> Section | None:
    """The section that holds a line."""
    for section in found:
        if section.line <= line <= section.end_line:
            return section
    return None
