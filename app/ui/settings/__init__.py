"""The settings on the screen, and what the chat takes from them.

rows           from the settings to lines, and from a key to the next value
changing       changing them, and what is to be said of it
list, line     the settings to choose from         inputs      where they are looked for and typed
field          typing a value, or the name of a preset
"""
