"""Keys: the bindings of the program and of the chat, and the last line that shows them."""
