"""An answer with and without its draft, side by side.

asked       what is compared, and behind what          course      the comparison as the screen goes through it
side_pane   one side of it                             outcome     what it has come to, in sentences
"""
