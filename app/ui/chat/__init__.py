"""The chat screen: keys give the session commands, and what the session reports as changed is drawn.

screen                 keys, and the screens that it opens
controller             what the user does with prompts, messages, branches, conversations and the pair
conversation_commands  copy, export, import, rename, system prompt, summary, drafting
renderer               draws what a command or an event has changed
input_mode             the input line: unsent text, and editing a message in it
message_reader         typed text as messages with files, and how many tokens it has
view                   the widgets, placed by the width of the terminal
inspector              the verify steps of the last answer
"""
