"""The list of conversations.

list     a line per conversation
picker   the list with its search line and the title editor, and its full screen
sidebar  the picker beside the chat
"""
