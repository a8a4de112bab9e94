"""Measurements of answers: the side panel and the status line.

readouts     state of the running or last answer; speed and acceptance of its last steps
view         base class of the two widgets
panel        the side panel
status_line  the line above the prompt
"""
