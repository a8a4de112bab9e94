"""The list of conversations.

list     one line each             picker  the list with its search line and the title editor
sidebar  the picker beside the chat  screen  the picker on the full screen
"""
