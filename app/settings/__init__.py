"""Every setting once: name, flag, range, default and what it does; and where a value comes from.

kinds      what a value may be: read from TOML, from a flag, from a field; shown and written again
tree       the list of settings
layers     who has the say: flag, conversation, preset, file, pair, model file, built-in default
model_file what the makers of a model recommend in its file
checking   a table from a file that nobody vouches for, setting by setting
file       settings.toml: read, changed in one step, never lost
shared     what holds for all conversations, in the file or for this program only
presets    named partial settings that come with Tandem
build      from settings to what the engine is asked for
live       all of it for one running program, which changes it as it goes
"""
