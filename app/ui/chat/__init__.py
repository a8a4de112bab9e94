"""The chat screen: keys run commands of the session, whose changes are drawn.

screen                 keys, and the screens that it opens
controller             user actions on prompts, messages, branches, conversations and the pair
conversation_commands  copy, export, import, rename, system prompt, summary, drafting
renderer               draws the changes of a command or an event
input_line             the input line: unsent text, messages made of typed text, and editing a message
view                   the widgets, placed by the width of the terminal
inspector              the verify steps of the last answer
"""
