"""The prompt: typed text, and its conversion to a message.

input           sends, completes, recalls and searches         editor  edits the text, in which marks stand for pastes
completion      commands, arguments, paths and past prompts; queued prompts
included_files  `@path` and the message with files
"""
