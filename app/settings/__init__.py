"""Settings: one table, their layers, and the file that stores them.

setting     what a setting is: name, flag, range, default, help text
table       every setting
kinds       the types of values, read from TOML, flags and fields
layers      precedence, built-in presets, conversion to the parameters of the engine, and reasoning
checking    validation of tables that anyone may have written, and of what a model file recommends
file        settings.toml
live        all layers of one running program, and changes to them
placement   device names, layer counts and KV cache types
"""
