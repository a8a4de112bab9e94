"""The parts of the chat screen: it reads a session's snapshot, and keys give the session commands.

base             the widgets; layout places them by the width of the terminal
renderer         draws what has changed in the snapshot
events           worker events: to the session first, then to the widgets
input_mode       the input line: unsent text, and editing a message in it
prompt_sender    from the input line to a message: slash commands, files
actions          edit, answer again, continue, branches, conversations, settings
error_hints      errors with the keys that fix them
inspector        the verify steps of the last answer
"""
