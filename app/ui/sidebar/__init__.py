"""Measurements of answers: the side panel and the status line.

readouts  state of the running or last answer, and the base class of the two widgets
panel     the side panel, and the line above the prompt
"""
