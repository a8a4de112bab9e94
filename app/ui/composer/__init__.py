"""The prompt: what the user types, and what it becomes before it is sent.

input           sends, completes, recalls and searches         editor  edits the text; pastes stand in it as marks
completion      commands, arguments, paths and past prompts; prompts that wait
included_files  `@path` and the message with files
"""
