"""One prompt with and without its draft, side by side.

screen  the screen and its events    panes  a side and its text, the prompt, and the result as text
"""
