"""Model files from a hub, pinned: a fixed revision, known sizes, known SHA-256.

Nothing is fetched unless somebody asks for it by its command. A file bears its name only once
its bytes are the pinned ones, so whoever finds it may use it; what was loaded so far lies
beside it as ``.part`` and is gone on with.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO
from urllib.parse import quote

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks.disk import disk_error

#: The hub, and the variable that its own tools read for another address (a mirror).
HUB, HUB_VARIABLE = "https://huggingface.co", "HF_ENDPOINT"
#: Seconds without a byte after which a connection counts as lost.
TIMEOUT_SECONDS = 30.0
#: Bytes that are read at once.
BLOCK = 1 << 20
#: Bytes that stay free on the disk.
SPARE_BYTES = 64 << 20
#: The command that fetches a model.
COMMAND = "memsearch model fetch"

#: Told how many bytes of all files are there, and how many there will be.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """A file of a repository: its path there, its bytes and their SHA-256 in hex."""

    path: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """What it is called here."""
        return os.path.basename(self.path)


@dataclass(frozen=True, slots=True)
class Pinned:
    """A model at one revision of its repository.

    Attributes:
        name: What the settings call it.
        repository: Owner and name at the hub.
        revision: The commit, 40 hex digits.
        files: What is needed of it.
    """

    name: str
    repository: str
    revision: str
    files: tuple[PinnedFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def folder(self, models: str) -> str:
        """Where its files lie, by the revision, so that another one is another model."""
        return os.path.join(models, f"{self.name}-{self.revision[:8]}")

    def missing(self, models: str) -> list[PinnedFile]:
        """The files that are not here yet; told by their sizes."""
        folder = self.folder(models)
        return [file for file in self.files if _size(os.path.join(folder, file.name)) != file.size]


def hub_url(environ: Mapping[str, str]) -> str:
    """The hub's address, or that of the mirror that the environment names."""
    return (environ.get(HUB_VARIABLE) or HUB).rstrip("/")


def fetch(model: Pinned, models: str, base_url: str, progress: Progress | None = None) -> list[str]:
    """Fetch what is missing of a model.

    Args:
        model: The model.
        models: Folder of all models; made if it is missing.
        base_url: The hub's address; ``/{repository}/resolve/{revision}/{path}`` is added.
        progress: Called after each block.

    Returns:
        The paths of its files.

    Raises:
        MemsearchError: ``NETWORK``, ``TIMEOUT``, ``SERVER`` or ``CONFIG`` when the hub cannot
            be had (what was loaded is kept), ``BAD_FILE`` when it has other bytes than the
            pinned ones (they are deleted), ``DISK_FULL``, ``PERMISSION``, ``BUSY``.
    """
    base = f"{base_url}/{model.repository}/resolve/{model.revision}/"

    def load(file: PinnedFile, part: str, told: Progress) -> None:
        _load(base + quote(file.path), file, part, told)

    return _bring(model, models, load, progress)


def take(model: Pinned, models: str, source: str, progress: Progress | None = None) -> list[str]:
    """The same from a folder that the files were brought to, for a machine without network.

    Raises:
        MemsearchError: ``BAD_FILE`` when one is not there, or has other bytes.
    """

    def load(file: PinnedFile, part: str, told: Progress) -> None:
        found = next(
            (
                path
                for path in (os.path.join(source, file.path), os.path.join(source, file.name))
                if os.path.isfile(path)
            ),
            "",
        )
        if not found:
            raise MemsearchError(
                f"{file.name} is not in {source}",
                kind=ErrorClass.BAD_FILE,
                hint=f"it is {base_of(model)}{file.path}",
            )
        with open(found, "rb") as data, open(part, "wb") as out:
            _copy(data, out, file, 0, told)

    return _bring(model, models, load, progress)


def base_of(model: Pinned) -> str:
    """The address of a model's files at the hub."""
    return f"{HUB}/{model.repository}/resolve/{model.revision}/"


def require(model: Pinned, models: str) -> str:
    """The folder of a model that is here.

    Raises:
        MemsearchError: ``CONFIG`` when it is not, with the command that fetches it.
    """
    if model.missing(models):
        raise MemsearchError(
            f"the model {model.name} is not on this machine yet",
            kind=ErrorClass.CONFIG,
            hint=f"{COMMAND} {model.name} loads it ({model.size / 1e6:,.0f} MB)",
        )
    return model.folder(models)


def _bring(
    model: Pinned,
    models: str,
    load: Callable[[PinnedFile, str, Progress], None],
    progress: Progress | None,
) -> list[str]:
    folder = model.folder(models)
    paths = [os.path.join(folder, file.name) for file in model.files]
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with _alone(folder):
            missing = model.missing(models)
            _check_room(folder, missing)
            done = model.size - sum(file.size for file in missing)
            for file in missing:
                path = os.path.join(folder, file.name)

                def told(here: int, total: int, before: int = done) -> None:
                    del total
                    if progress is not None:
                        progress(before + here, model.size)

                load(file, path + ".part", told)
                _check(path + ".part", file)
                os.replace(path + ".part", path)
                done += file.size
    except OSError as error:
        raise disk_error(error, f"{folder} cannot be written") from error
    return paths


def _load(url: str, file: PinnedFile, part: str, told: Progress) -> None:
    there = _size(part) or 0
    if there > file.size:
        os.unlink(part)
        there = 0
    if there == file.size:
        return
    if not url.startswith(("https://", "http://")):
        raise MemsearchError(
            f"{url} is no address of a hub",
            kind=ErrorClass.CONFIG,
            hint=f"{HUB_VARIABLE} starts with https://",
        )
    request = urllib.request.Request(url, headers={"User-Agent": "memsearch"})  # noqa: S310
    if there:
        request.add_header("Range", f"bytes={there}-")
    with (
        _translated(url, part, file),
        urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer,  # noqa: S310
    ):
        goes_on = answer.status == 206 and (answer.headers.get("Content-Range") or "").startswith(
            f"bytes {there}-"
        )
        if not goes_on:
            there = 0  # a server that knows no ranges sends it all
        length = answer.headers.get("Content-Length")
        if length is not None and there + int(length) != file.size:
            raise _other(url, f"it has {there + int(length):,} bytes, {file.size:,} are pinned")
        with open(part, "ab" if there else "wb") as out:
            _copy(answer, out, file, there, told)


def _copy(data: IO[bytes], out: IO[bytes], file: PinnedFile, there: int, told: Progress) -> None:
    while block := data.read(BLOCK):
        out.write(block)
        there += len(block)
        told(there, file.size)
        if there > file.size:
            return  # the check says what it is
    out.flush()
    os.fsync(out.fileno())


def _check(part: str, file: PinnedFile) -> None:
    size = _size(part) or 0
    if size < file.size:
        raise MemsearchError(
            f"the connection ended at {size:,} of {file.size:,} bytes of {file.name}",
            kind=ErrorClass.NETWORK,
            hint="the same command goes on from there",
        )
    digest = hashlib.sha256()
    with open(part, "rb") as data:
        while block := data.read(BLOCK):
            digest.update(block)
    if size == file.size and digest.hexdigest() == file.sha256:
        return
    os.unlink(part)
    raise _other(file.name, f"its SHA-256 is {digest.hexdigest()}, {file.sha256} is pinned")


def _other(what: str, why: str) -> MemsearchError:
    return MemsearchError(
        f"{what} is not the file that is pinned: {why}",
        kind=ErrorClass.BAD_FILE,
        hint=f"nothing of it was kept; try again, and look at {HUB_VARIABLE} if you set a mirror",
    )


@contextlib.contextmanager
def _translated(url: str, part: str, file: PinnedFile) -> Iterator[None]:
    """What a request came to, in our words; ``OSError`` of the disk passes."""
    kept = "what was loaded is kept, and the same command goes on"
    try:
        yield
    except urllib.error.HTTPError as error:
        code = error.code
        error.close()
        if code == 416:  # it has fewer bytes than are here already
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part)
            raise _other(url, "it is shorter than what was loaded") from error
        kind = ErrorClass.SERVER if code >= 500 or code == 429 else ErrorClass.CONFIG
        raise MemsearchError(
            f"{url} answered {code}",
            kind=kind,
            hint=kept if kind is ErrorClass.SERVER else f"look at {HUB_VARIABLE}, if you set it",
        ) from error
    except TimeoutError as error:
        raise MemsearchError(
            f"{url} sent nothing for {TIMEOUT_SECONDS:g} s", kind=ErrorClass.TIMEOUT, hint=kept
        ) from error
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error
        raise MemsearchError(
            f"{url} cannot be reached: {reason}",
            kind=ErrorClass.NETWORK,
            hint=(
                f"{kept}; without network, put {file.name} and the others into a folder and use"
                f" {COMMAND} --from FOLDER"
            ),
        ) from error


@contextlib.contextmanager
def _alone(folder: str) -> Iterator[None]:
    """One process loads a model; two would write into one part."""
    import fcntl

    fd = os.open(os.path.join(folder, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise MemsearchError(
                "another process is loading this model", kind=ErrorClass.BUSY
            ) from error
        yield
    finally:
        os.close(fd)


def _check_room(folder: str, missing: list[PinnedFile]) -> None:
    there = sum(_size(os.path.join(folder, file.name + ".part")) or 0 for file in missing)
    need = sum(file.size for file in missing) - there
    free = shutil.disk_usage(folder).free
    if missing and free < need + SPARE_BYTES:
        raise MemsearchError(
            f"the model needs {need / 1e6:,.0f} MB and {free / 1e6:,.0f} are free in {folder}",
            kind=ErrorClass.DISK_FULL,
            hint="make room and try again",
        )


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return None
