"""Random use of the real program over an engine without models.

`python -m tests.ui.monkey FIRST LAST` plays the sessions with these seeds, and makes the first one that fails short.
"""
