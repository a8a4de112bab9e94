"""One prompt with and without its draft, side by side.

screen     the screen               runner   runs rounds and collects their results
side_pane  one side and its text    result   the prompt, and the result as text and bars
"""
