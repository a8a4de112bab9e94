"""Where the user writes, and what becomes of it before it is sent.

input         the prompt itself                    suggestions     the list above it
completion    what the text at the cursor could become; path_completion and the commands are its sources
past_prompts  what was asked before                pastes          long pastes, as one short mark
references    `@path` in a text                    including       the files they name, read
included_line what all that takes of the context
"""
