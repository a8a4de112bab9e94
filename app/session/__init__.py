"""One chat as one state machine: commands and worker events in, a snapshot out.

No screen, no timer, no thread: readers such as the chat screen call it and render `Session.snapshot`.

session         commands and events; the entry point
snapshot        one chat at one moment, as values
answering       requests to the engine: answers, and titles of conversations
compaction      a full context: the messages to leave out, and the request for their summary
active_conversations  the conversations in memory, and the prompts that wait in them
pair_state      the loaded pair, and whether its drafts are used
conversation    one conversation, its branches and its running answer, stored while it is written
turn            the last prompt of a branch, how its answer ended, and what is stored with it
library         all stored conversations: list, search, rename, pin, delete
chat_settings   how answers are asked for
"""
