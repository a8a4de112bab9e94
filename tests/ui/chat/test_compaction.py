"""A full context on the screen: the progress, the messages that the model no longer reads, and the summary."""

from app.core.errors import ContextOverflowError
from tests.ui.driver import Chat, open_chat


async def summarized(chat: Chat) -> None:
    """Fill the context, and let the engine summarize the first of two turns."""
    await chat.exchange("What is the tallest mountain of Africa?", "Kilimanjaro.")
    await chat.exchange("Hi", "Hello.")
    await chat.send("more")
    chat.engine.fails(ContextOverflowError("Too long.", "", whose="conversation", n_tokens=60_000))
    await chat.shows("context full: summarizing")
    chat.engine.goes_on("They talked about Kilimanjaro.")
    await chat.until(lambda: len(chat.engine.requests) == 5 and not chat.screen.session.is_compacting)
    await chat.answer("Fine.")
    await chat.shows("Fine.")


async def test_messages_that_the_model_no_longer_reads_are_dimmed() -> None:
    async with open_chat() as chat:
        await summarized(chat)
        unread = [message.is_unread for message in chat.screen.view.messages.messages]
        assert unread == [True, True, False, False, False, False]
        assert "They talked" not in chat.text


async def test_the_summary_opens_and_can_be_changed() -> None:
    async with open_chat() as chat:
        await summarized(chat)
        await chat.click("summary", shows="They talked about Kilimanjaro.")
        await chat.enter("/summary", until=lambda: chat.prompt == "They talked about Kilimanjaro.")
        await chat.pilot.press("end")
        await chat.enter(" At length.")
        await chat.until(
            lambda: chat.screen.session.conversation.summary == "They talked about Kilimanjaro. At length."
        )


async def test_a_conversation_that_the_model_reads_whole_has_no_summary() -> None:
    async with open_chat() as chat:
        await chat.exchange("Hi", "Hello.")
        await chat.enter("/summary", "There is no summary of earlier messages.")
