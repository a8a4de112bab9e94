"""Settings: one table, their layers, and the file that stores them.

table       every setting: name, flag, range, default, help text
kinds       the types of values, read from TOML, flags and fields
layers      precedence, and the built-in presets
checking    validation of tables that anyone may have written
file        settings.toml
model_file  sampling values that a model file recommends
live        all layers of one running program, and changes to them
params      conversion to the parameters of the engine
placement   device names, layer counts and KV cache types
thinking    whether and how hard a model thinks
"""
