"""The chat's conversations in the store. Knows no widget: everything here is called on the screen's thread.

keeper   the conversation that goes on, written down while it does
kept     what is kept of it, as values
shelf    all conversations: listed, named, pinned, deleted
disk     a store that refuses is a sentence, and the chat goes on in memory
"""
