"""The terminal and the system around it.

input_parser  pastes and alt keys    copying  the clipboard    stderr_guard  keeps native output off the screen
"""
