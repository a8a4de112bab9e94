"""Where the user writes, and what becomes of it before it is sent.

input         the prompt itself                    suggestions     the list above it
editor        its text, on which the others work
completing    what the text at the cursor could become: completion finds it
recalling     what was asked before: past_prompts, alike
pastes        long pastes, as one short mark
references    `@path` in a text                    including       the files they name, read
included_line what all that takes of the context
"""
