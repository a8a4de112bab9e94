"""Keys: what they do, where they are shown, and the user's own.

program_keys  those that work on every screen       chat_keys   those of the chat
bar, order    the last line                         table       all keys, in two columns
listing       every key, from the bindings themselves     editing      an editor's own, in words
own           the user's wishes, as far as they can be met
in_turn       however fast they come, one after the other
"""
