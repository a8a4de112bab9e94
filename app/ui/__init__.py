"""The full-screen chat; the only importer of textual.

Imports run downward only (`tool.importlinter` in pyproject.toml enforces it):

    app            the application: global keys, quitting
    screens        one screen per file, its style sheet beside it
    compare        an answer with and without drafts, side by side
    chat           the chat screen, one concern per module
    composer       the message input: completion, pastes, included files
    commands       slash commands, found, read and completed
    conversations  the list of conversations
    transcript     the open conversation on the screen
    models         pairs, their setup, and options for a pair that does not fit
    sidebar        measurements and how they are shown
    settings       settings and their effect on the chat
    themes         colors of Tandem and of other themes
    keys           the last line of a screen, which shows its keys
    event_queue    worker events at the screen's pace
    terminal       clipboard, keys, native output
    base_screen    base classes of all screens
    widgets        widgets that several screens use
    reading        rows of text that grows at its end
    key_names      display names of keys
    actions        everything that the program can do: keys, slash commands, palette
    text           display text for model output, numbers and model files
"""

import os

# After drawing, Textual waits for up to two frames: at sixty frames a second a key would wait 33 milliseconds.
# Without changes nothing is drawn, however many frames there are.
os.environ.setdefault("TEXTUAL_FPS", "240")
