"""The full-screen chat; the only importer of textual.

app            the application: themes, keys that work everywhere, quitting
screens/       one screen a file, its style sheet beside it
widgets/       what the screens are made of; they show state and ask for changes
session        what is being talked about and what may be asked next: plain values, no widgets
bridge         worker events, from the worker's thread to the screen's
shared_ears    lets a screen on top of the chat hear what the engine says about its own requests
comparing      a comparison as the screen goes through it
stderr_guard   keeps what native code prints off the screen
text, names    from model output, numbers and model files to what is shown
"""
