"""The terminal and the system around it.

input_parser  pastes and alt keys                  copying       the clipboard
sequences     control sequences past the screen    attention     a notification after a long answer
signals       being ended from outside             stderr_guard  keeps native output off the screen
"""
