"""Settings: one table, their layers, and the file that stores them.

setting       a setting: name, flag, range, default, help text
table         every setting
kinds         types of values, read from TOML, flags and fields
layers        precedence, built-in presets, conversion to engine parameters, and reasoning
checking      validation of settings tables and of a model file's recommendations
file          settings.toml
live          all layers of a running program, and changes to them
placement     device names, layer counts and KV cache types
model_params  parameters of a model's weights and of its contexts
mcp_file      mcp.json, the MCP servers of the user
"""
