"""One chat as one state machine: commands and worker events in, what changed out.

No screen, no timer, no thread. A reader passes every event to `Session.handle`, and draws what it returns.

session         the commands; the entry point
chat_events     events of the worker: answers begin and end, calls of tools run, pairs are loaded
facts           the loaded pair, and what is true of a chat now
state           what a reader is told: phase, last prompt, why nothing can be asked, drafting, and what has changed
answering       requests to the engine: answers, summaries of earlier messages, titles of conversations
active_conversations  the conversations in memory, and the prompts that wait in them
permissions     tools that the user allows without a question
past_calls      calls that the model repeats, and its answer from their results
tool_use        the tools of a turn, and its calls one after another
conversation    one conversation with its running answer, stored while it is written
branches        the tree of a conversation, the prompts that wait in it, its settings
library         all stored conversations: list, search, rename, pin, delete
"""
