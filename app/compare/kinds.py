"""The kinds of text in our own suite; apart from its prompts, because help names them and waits for nothing."""

KINDS = ("code", "edit", "prose", "chat", "extraction", "structured", "reasoning", "translation")
"""How much a draft is right depends on the kind of text more than on anything else, so it is told kind by kind."""
