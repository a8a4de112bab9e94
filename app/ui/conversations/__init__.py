"""The list of conversations.

list     one line each
picker   the list with its search line and the title editor, and the screen of its own
sidebar  the picker beside the chat
"""
