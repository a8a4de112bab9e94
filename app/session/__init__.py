"""The open conversation and its persistence; no screen and no thread.

keeper        entry point: saves an answer while it is being written
conversation  the open conversation and its branches
shelf         the list of conversations: rename, pin, delete
kept          saved items as values
"""
