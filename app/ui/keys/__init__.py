"""Keys: what they do, where they are shown, and the user's own.

chat_keys  the keys of the chat screen, and their order in its last line
bar        that line                               table       all keys, in two columns
listing    every key, from the bindings themselves
own        the user's wishes, as far as they can be met
"""
