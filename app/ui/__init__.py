"""The full-screen chat; the only importer of textual.

Imports run downwards only (`tool.importlinter` in pyproject.toml holds it):

app            the application: keys that work everywhere, quitting
screens        one screen a file, its style sheet beside it
comparing      an answer with and without its draft, side by side
chat           what the chat screen does, one concern a module
prompt         where the user writes: completion, pastes, files that are included
commands       what can be asked of the chat by name
conversations  the conversations to choose from          messages   the one that goes on, on the screen
pairs          which pairs there are, how setting one up goes, what to do when one does not fit
readouts       what is measured, and how it is shown     settings   the settings, and what the chat takes from them
keys           what they do and where they are shown     look       colours, themes
keeping        the conversations in the store            listening  what the engine says, at the screen's own pace
terminal       manners towards the terminal and the system
widgets        parts that several screens are made of
reading        text that grows at its end, as rows
aside          work that may take its time               sweeping   the collector of cycles, out of the way
turns          whose turn it is among threads
text, names    from model output, numbers and model files to what is shown
key_names      what sentences call a key that the user may have changed
"""

import os

# Having drawn, Textual waits for up to two of its frames: at its usual sixty a second a key would wait 33 milliseconds.
# Where nothing has changed nothing is drawn, however many frames there are.
os.environ.setdefault("TEXTUAL_FPS", "240")
