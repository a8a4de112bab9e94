"""One prompt with and without its draft, side by side.

screen  the screen and its events    side_pane  a side and its text    result  the rounds, and the result as text
"""
