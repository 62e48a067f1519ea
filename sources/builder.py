"""Putting one turn together from its steps, within the bounds of a turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from memsearch.sources.base import (
    MAX_OUTPUT_CHARS,
    MAX_TEXT_CHARS,
    MAX_TURN_CHARS,
    Item,
    State,
    Turn,
)
from memsearch.sources.bounds import Clipped

#: The first steps of a turn are kept up to this many characters.
HEAD_CHARS = MAX_TURN_CHARS // 2 - 10_000
#: The last steps are kept up to this many.
TAIL_CHARS = MAX_TURN_CHARS // 2 - 10_000
#: Messages of the user between them are kept up to this many.
BETWEEN_CHARS = MAX_TURN_CHARS - HEAD_CHARS - TAIL_CHARS
#: What a step costs beside its characters, so that a million empty ones are bounded too.
STEP_CHARS = 20
#: Tool calls that may wait for their result at the same time.
MAX_OPEN_CALLS = 1_000


class Step:
    """An item that may still change: a tool call gets its output later.

    Texts are cut when the turn is built, since only then it is known which are kept.
    """

    __slots__ = ("_output", "_text", "failed", "kind", "left_out", "name", "place", "reserved")

    def __init__(
        self, kind: Literal["user", "assistant", "tool", "note"], text: str, name: str = ""
    ) -> None:
        self.kind = kind
        self._text = Clipped(text, MAX_TEXT_CHARS)
        self.name = name[:200]
        self._output = Clipped("", MAX_OUTPUT_CHARS)
        #: Characters that were missing at the end of the output already.
        self.left_out = 0
        self.failed = False
        #: Room kept for an output that has not come yet, in characters.
        self.reserved = MAX_OUTPUT_CHARS if kind == "tool" else 0
        self.place: Literal["head", "between", "tail", "gone"] = "head"

    def say(self, text: str) -> None:
        """Give it another text."""
        self._text = Clipped(text, MAX_TEXT_CHARS)

    def end(self, output: str, *, failed: bool, left_out: int) -> None:
        """Give it its output."""
        self.reserved = 0
        self._output = Clipped(output, MAX_OUTPUT_CHARS)
        self.failed = failed
        self.left_out = left_out

    @property
    def text(self) -> str:
        """The text; of one that is too long its beginning."""
        return self._text.text

    @property
    def is_whole(self) -> bool:
        """Whether nothing of the text is too much."""
        return self._text.is_whole

    @property
    def length(self) -> int:
        """Characters of text and output, with those that are left out."""
        return self._text.length + self._output.length + self.left_out

    @property
    def cost(self) -> int:
        """Characters that count against the bounds."""
        kept = len(self._text) + len(self.name) + len(self._output)
        return kept + self.reserved + STEP_CHARS

    def item(self) -> tuple[Item, int]:
        """What it is now, and how many characters are missing in it."""
        text, cut = self._text.finish()
        output, missing = self._output.finish(self.left_out)
        item = Item(kind=self.kind, text=text, name=self.name, output=output, failed=self.failed)
        return item, cut + missing


class TurnBuilder:
    """Collects the steps of one turn: the first and the last ones, and all the user's words.

    A turn can hold a hundred thousand tool calls; what does not fit is left out of its
    middle, counted, and marked there.
    """

    def __init__(self) -> None:
        self._head: list[Step] = []
        self._between: list[Step] = []
        self._tail: deque[Step] = deque()
        self._head_room = HEAD_CHARS
        self._tail_cost = 0
        self._between_cost = 0
        self._left_out = 0  # steps
        self._missing = 0  # characters
        self._calls: dict[str, Step] = {}

    def add(
        self, kind: Literal["user", "assistant", "note"], text: str, *, extend: Step | None = None
    ) -> Step:
        """Add a step; ``extend`` replaces the text of an earlier one that grew."""
        if extend is not None and extend.place != "gone":
            before = extend.cost
            extend.say(text)
            self._changed(extend, extend.cost - before)
            return extend
        return self._place(Step(kind, text))

    def call(self, key: str, name: str, text: str) -> None:
        """Add a tool call; its result is found by ``key``."""
        step = self._place(Step("tool", text, name))
        self._calls[key] = step
        if len(self._calls) > MAX_OPEN_CALLS:
            del self._calls[next(iter(self._calls))]

    def result(self, key: str, output: str, *, failed: bool, left_out: int = 0) -> bool:
        """The output of a call; False when no call waits for it."""
        step = self._calls.pop(key, None)
        if step is None:
            return False
        before = step.cost
        step.end(output, failed=failed, left_out=left_out)
        self._changed(step, step.cost - before)
        if step.place == "gone":
            self._missing += len(output) + left_out
        return True

    def withdraw(self, step: Step) -> None:
        """Take a step back."""
        for place in (self._head, self._between, self._tail):
            if step in place:
                place.remove(step)
                self._changed(step, -step.cost)
                step.place = "gone"
                return

    def has_user_text(self, text: str) -> bool:
        """Whether the user said exactly this in the steps that are held."""
        return any(
            step.kind == "user" and step.is_whole and step.text == text
            for place in (self._head, self._between, self._tail)
            for step in place
        )

    @property
    def has_words(self) -> bool:
        """Whether the user said anything."""
        return any(
            step.kind == "user" for place in (self._head, self._between) for step in place
        ) or any(step.kind == "user" for step in self._tail)

    def awaits(self, key: str) -> bool:
        """Whether this tool call has no result yet."""
        return key in self._calls

    def build(
        self,
        *,
        platform: str,
        id: str,  # noqa: A002
        session: str,
        at: datetime,
        cwd: str | None,
        state: State,
        anchor: Mapping[str, str],
        position: int,
        aliases: tuple[str, ...],
        private: bool,
        copied: bool = False,
        notes: tuple[str, ...] = (),
    ) -> Turn:
        """The turn as it stands; ``notes`` come at its end. It may go on after that."""
        steps = [*self._head, *self._between]
        if self._left_out:
            steps.append(Step("note", f"{self._left_out} steps left out here"))
        steps += [*self._tail, *(Step("note", note) for note in notes)]
        made = [] if private else [step.item() for step in steps]
        items = tuple(item for item, _ in made)
        truncated = 0 if private else self._missing + sum(missing for _, missing in made)
        return Turn(
            platform=platform,
            id=id,
            session=session,
            at=at,
            cwd=cwd,
            items=items,
            state=state,
            anchor=anchor,
            position=position,
            truncated=truncated,
            aliases=aliases,
            private=private,
            copied=copied,
        )

    def _place(self, step: Step) -> Step:
        if not self._tail and step.cost <= self._head_room:
            self._head.append(step)
            self._head_room -= step.cost
        else:
            step.place = "tail"
            self._tail.append(step)
            self._tail_cost += step.cost
            self._shorten()
        return step

    def _changed(self, step: Step, by: int) -> None:
        match step.place:
            case "head":
                self._head_room -= by
            case "between":
                self._between_cost += by
            case "tail":
                self._tail_cost += by
                self._shorten()

    def _shorten(self) -> None:
        while self._tail_cost > TAIL_CHARS and len(self._tail) > 1:
            step = self._tail.popleft()
            self._tail_cost -= step.cost
            if step.kind == "user" and self._between_cost + step.cost <= BETWEEN_CHARS:
                step.place = "between"
                self._between.append(step)
                self._between_cost += step.cost
                continue
            step.place = "gone"
            self._left_out += 1
            self._missing += step.length
