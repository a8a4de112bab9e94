"""The chat screen, the list of keys, the user's own keys, and the command palette."""
