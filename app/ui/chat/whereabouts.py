"""Which conversation the chat is in, and going from one to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.session.keeper import Keeper
from app.session.kept import Opened
from app.ui.chat.asking import Asking
from app.ui.chat.bare_screen import BareChatScreen
from app.ui.chat.branches import Branches
from app.ui.chat.file_reading import FileReading
from app.ui.chat.own_settings import OwnSettings
from app.ui.chat.pair_loading import PairLoading
from app.ui.chat.pair_notice import PairNotice
from app.ui.chat.session import Phase
from app.ui.chat.tasks import Tasks
from app.ui.chat.unsent import Unsent
from app.ui.key_names import key

if TYPE_CHECKING:
    from app.ui.conversations.picker import ConversationPicker


class Whereabouts:
    """Leaves one conversation for another; what is typed stays with the one that is left.

    Args:
        screen: The chat.
        keeper: Has the conversations.
        asking: Takes back what was asked in the one that is left.
        tasks: What is written there that is no prompt.
        unsent: What is typed there.
        own_settings: The settings of each.
        pair_loading: Loads the pair that waited for an answer to end.
        reading: Reads the files of what was sent there.
        pair_notice: Shows when the loaded model differs from the conversation's.
    """

    def __init__(
        self,
        screen: BareChatScreen,
        keeper: Keeper,
        asking: Asking,
        tasks: Tasks,
        unsent: Unsent,
        own_settings: OwnSettings,
        pair_loading: PairLoading,
        reading: FileReading,
        pair_notice: PairNotice,
    ) -> None:
        self._screen = screen
        self._keeper = keeper
        self._asking = asking
        self._tasks = tasks
        self._unsent = unsent
        self._own_settings = own_settings
        self._pair_loading = pair_loading
        self._reading = reading
        self._pair_notice = pair_notice
        self._branches = Branches(screen, keeper)

    async def begin_anew(self) -> None:
        """Begin an empty conversation, and write in it."""
        self._screen.prompt.focus()
        self._screen.hint.forget()
        self._screen.sidebar.end_search()
        await self._leave()

    async def _leave(self) -> None:
        left = self._keeper.conversation
        opened = self._keeper.leave(self._unsent.text)
        await self._put_down()
        await self._go_to(opened, left)

    async def open(self, conversation: int | None) -> None:
        """Go on with another conversation; None stays, unless the one that goes on was deleted."""
        left = self._keeper.conversation
        if conversation is not None and conversation != left:
            if opened := self._keeper.open(conversation, self._unsent.text):
                await self._put_down()
                self._screen.hint.forget()
                await self._go_to(opened, left)
        elif self._keeper.is_deleted:
            # The keys stay where the one that brings it back is.
            await self._leave()

    async def open_found(self, found: ConversationPicker.Chosen | None) -> None:
        """Go on with the conversation that was found, and show the message; None stays."""
        if found is not None:
            self._screen.sidebar.end_search()
        await self.open(found.conversation if found is not None else None)
        if found is not None and found.message is not None:
            await self._reveal(found.message)

    async def _reveal(self, message: int) -> None:
        """Bring a message in sight; the branch that it stands in becomes the active one."""
        tree = self._keeper.tree
        if message in tree.nodes and tree.nodes[message] not in tree.path:
            if self._screen.session.is_on_its_way:
                stops = key("chat.stop", "esc")
                self._screen.hint.say(f"It stands in another branch; {stops} stops what is being asked here.")
                return
            self._tasks.leave()
            await self._branches.show(self._keeper.switch(message), message)
        await self._screen.messages.seek(message)

    async def _put_down(self) -> None:
        """Let go of what is being written or waits; it is kept with the conversation that is left."""
        self._reading.give_up()
        self._tasks.end()
        await self._asking.take_back()

    async def _go_to(self, opened: Opened, left: int | None) -> None:
        screen, session = self._screen, self._screen.session
        self._asking.cancel()
        session.restart(opened.said, opened.asked, answered=opened.answered)
        screen.hint.about("")
        screen.inspector.begin()
        screen.prompt.put(opened.draft)
        await screen.messages.show(opened.path)
        screen.messages.mark(self._keeper.tree)
        await self._own_settings.enter(opened.settings, left)
        screen.hint.unseen(False)
        await self._pair_loading.load_next()
        await self._pair_notice.conversation_opened()
        if session.phase is Phase.READY:
            screen.show_ready()
        screen.sidebar.look_again()
        screen.workspace.show_last_numbers(opened.path)
        screen.refresh_bindings()
