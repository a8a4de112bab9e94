"""The prompt: what the user types, and what it becomes before it is sent.

input          sends, completes and searches       editor          edits the text; pastes stand in it as marks
completion     commands, arguments and paths       suggestions     the list above the prompt
included_files `@path` and the message with files  included_line   the share of the context that they take
pasted_text    long pastes as short marks          prompt_history  past prompts, one by one or searched
"""
