"""A chat as a state machine: commands and worker events in, changes out.

No screen, no timer, no thread. A reader passes every event to `Session.handle`, and draws what it returns.

session         the commands; the entry point
chat_events     events of the worker: answers begin and end, tool calls run, pairs are loaded
facts           the loaded pair, and the current facts of a chat
state           values for readers: phase, why nothing can be asked, drafting, how an answer ended, and changes
answering       requests to the engine: answers, summaries of earlier messages, titles of conversations
active_conversations  the conversations in memory, and their queued prompts
permissions     tools that the user allows without asking
past_calls      calls that the model repeats, and its answer from their results
tool_use        the tools of a turn, and its calls one after another
conversation    a conversation with its running answer, stored while it is written
branches        the tree of a conversation, its last prompt, its queued prompts, its settings
library         all stored conversations: list, search, rename, pin, delete
"""
