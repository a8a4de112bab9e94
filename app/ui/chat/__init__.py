"""The parts of the chat screen: it reads a session's snapshot, and keys give the session commands.

base         the widgets, placed by the width of the terminal
renderer     draws what has changed in the snapshot; worker events: to the session first, then to the widgets
input_mode   the input line: unsent text, and editing a message in it
actions      prompts, slash commands, edit, answer again, continue, branches, conversations, settings
inspector    the verify steps of the last answer
"""
