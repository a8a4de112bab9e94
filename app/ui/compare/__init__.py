"""One prompt with and without its draft, side by side.

screen     the screen and its events    rounds   the rounds and their result
side_pane  one side and its text        result   the prompt, and the result as text and bars
"""
