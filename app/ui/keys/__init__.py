"""Keys: what they do, where they are shown, and the user's own.

bindings     the keys of the program and of the chat    footer       the last line
key_list     every key, in two columns                  custom_keys  the user's own keys
input_queue  handles fast input in order
"""
