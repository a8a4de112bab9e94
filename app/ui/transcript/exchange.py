"""The last prompt and its answer: asked, answered once more, continued, taken back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.conversations.ending import Ending
from app.ui.transcript.absent import AbsentAnswer, AbsentPrompt
from app.ui.transcript.attempt import Attempt
from app.ui.transcript.column import Entry
from app.ui.transcript.message import AnswerMessage, Offer, UserMessage
from app.ui.transcript.view import View
from app.ui.transcript.welcome import Welcome


class Exchange(View):
    """A column of messages, the last of which may be on its way."""

    def __init__(self) -> None:
        self._welcome = Entry(widget=Welcome())
        super().__init__(self._welcome)
        self._asked: Entry | None = None
        self._answer: Entry | None = None
        self._attempt = Attempt()

    def on_resize(self) -> None:
        # What is in the column is laid out anew for another width only; this goes by the height, too.
        if (welcome := self._welcome.widget) is not None and not self._welcome.hidden:
            welcome.refresh(layout=True)

    @property
    def answer(self) -> AnswerMessage | None:
        """The answer that is being written, or was last."""
        widget = self._answer.widget if self._answer is not None else None
        return widget if isinstance(widget, AnswerMessage) else None

    async def ask(self, prompt: str, unanswered: str | None = None) -> AnswerMessage | None:
        """Add a prompt and the place for its answer, and go there; None when the program is being left.

        Args:
            prompt: What is asked.
            unanswered: The last prompt, if nothing came of it: the same words are that prompt again, and others take
                its place, for what was not answered is not gone on from.
        """
        if prompt == unanswered:
            return await self.ask_again()
        async with self._changing():
            instead = self._from(self._asked) if unanswered is not None else ()
            # What the program remarked meanwhile stays.
            replaced = [*(entry for entry in instead if entry.absent is not None), *self._offers]
            self._asked = Entry(AbsentPrompt(prompt))
            return await self._begin_answer([self._asked], replaced)

    async def ask_again(self, prompt: UserMessage | None = None) -> AnswerMessage | None:
        """Make a place for another answer; `settle` decides whether it stays or what it takes the place of.

        Args:
            prompt: What is to be answered; None for the last prompt.
        """
        async with self._changing():
            self._asked = self.column.entry_of(prompt) or self._asked
            return await self._begin_answer([], self._from(self._asked)[1:], is_another=True)

    async def _begin_answer(
        self, above: Sequence[Entry], replaced: Sequence[Entry], *, is_another: bool = False
    ) -> AnswerMessage | None:
        self._answer = Entry(AbsentAnswer())
        self._attempt = Attempt((*above, self._answer), tuple(replaced), is_another=is_another)
        self._hide(replaced, True)
        self.said.put(self._attempt.fresh)
        self.anchor()
        await self._settle()
        return self.answer

    async def go_on(self, answer: AnswerMessage) -> None:
        """More of an answer is to come; what stands below it and is no part of the conversation goes."""
        async with self._changing():
            self._answer, self._attempt = self.column.entry_of(answer), Attempt(continues=True)
            assert self._answer is not None
            above = reversed(self.column.entries[: self._answer.number])
            self._asked = next(filter(_is_prompt, above), None)
            await self._take_out(self._from(self._answer)[1:])
            await answer.go_on()
            self.anchor()
            await self._settle()

    async def settle(self, ending: Ending, *, counts: bool) -> bool:
        """The answer has ended.

        Args:
            ending: How; it is said below the answer.
            counts: Whether the conversation goes on from it.

        Returns:
            Whether it gave way to what was there before; then nothing is said of how it ended.
        """
        async with self._changing():
            answer, attempt = self.answer, self._attempt
            if answer is None:
                return False
            gives_way = attempt.gives_way(answer, ending, counts=counts)
            if gives_way:
                await self._give_way(answer)
            else:
                self._attempt = Attempt()
                await self._take_out(attempt.replaced)
                await answer.end(ending)
            return gives_way

    async def take_back(self) -> None:
        """Let what was asked last never have been asked."""
        async with self._changing():
            await self._give_way(self.answer)

    async def _give_way(self, answer: AnswerMessage | None) -> None:
        attempt, self._attempt = self._attempt, Attempt()
        if attempt.continues:
            if answer is not None:
                await answer.end_as_before()
            return
        self._hide(attempt.replaced, False)
        await self._take_out(attempt.fresh)
        await self._settle_last()

    @property
    def _offers(self) -> list[Entry]:
        """What the last answer left to be taken."""
        return [entry for entry in self.column.mounted if isinstance(entry.widget, Offer)]

    def _pinned(self) -> set[Entry]:
        return {entry for entry in (self._asked, self._answer) if entry is not None}

    @property
    def _expecting(self) -> Entry | None:
        """The prompt whose answer is on its way and has no word yet; None if there is none."""
        is_on_its_way = bool(self._attempt.fresh) or self._attempt.continues
        return self._asked if is_on_its_way and self.answer is not None and not self.answer.has_grown else None

    def _from(self, entry: Entry | None) -> tuple[Entry, ...]:
        """A message and what stands below it; for none, nothing."""
        if entry is None:
            return ()
        return tuple(each for each in self.column.entries[entry.number :] if not each.hidden)

    def _hide(self, entries: Sequence[Entry], hidden: bool) -> None:
        self.column.hide(entries, hidden)
        for entry in entries:
            if entry.widget is not None:
                entry.widget.display = not hidden
        self.said.resize()

    async def _settle(self, also: Iterable[Entry] = ()) -> None:
        shown = (entry for entry in self.column.entries if entry is not self._welcome and not entry.hidden)
        begun = not all(map(_is_notice, shown))
        if begun != self._welcome.hidden:
            self._hide([self._welcome], begun)
        await super()._settle(also)

    async def _settle_last(self) -> None:
        """The last message has become another one."""
        last = next((entry for entry in reversed(self.column.entries) if entry.absent is not None), None)
        self._answer = last if last is not None and _is_answer(last) else None
        self._asked = next(filter(_is_prompt, reversed(self.column.entries)), None)
        await self._settle()


def _is_notice(entry: Entry) -> bool:
    """Whether it is a sentence of the program's own; what was asked for, or has failed, is more than that."""
    widget = entry.widget
    return widget is not None and widget.has_class("notice") and widget.id is None


def _is_prompt(entry: Entry) -> bool:
    return isinstance(entry.absent, AbsentPrompt)


def _is_answer(entry: Entry) -> bool:
    return isinstance(entry.absent, AbsentAnswer)
