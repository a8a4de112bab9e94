"""The prompt: what the user types, and what it becomes before it is sent.

input           sends, completes and searches           editor          edits the text; pastes stand in it as marks
completion      commands, arguments and paths, listed   prompt_history  past prompts, one by one or searched
included_files  `@path` and the message with files
"""
