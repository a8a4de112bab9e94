"""Slash commands and the command palette.

command  parses commands       table    the chat's commands
chat     what they act on      palette  entries of the palette
"""
