"""Colors: ours, anybody's themes made readable with them, and what the user has chosen.

themes    two colors carry meaning                contrast    that they can be read on any background
chosen    what the settings say of them
"""
