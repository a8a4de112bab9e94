"""An answer with and without its draft, side by side.

comparable  what the chat hands over for it; light, since the chat's first frame waits for its imports
course      the comparison as the screen goes through it
side_pane   one side of it                         outcome     what it has come to, in sentences
"""
