"""Slash commands and the command palette.

command  parses commands; what they act on    table  the chat's commands and its palette
"""
