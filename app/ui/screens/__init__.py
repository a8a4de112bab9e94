"""One screen a file, its style sheet beside it.

on_top opens those that come on top of the chat; own_keys holds the user's keys against those of all of them.
"""
