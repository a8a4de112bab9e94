"""The native boundary: the only importer of llama_cpp and ctypes.

Ints, floats, lists and NumPy rows leave this package; pointers and structs never do. Three classes own the three
kinds of native handle (`Model`, `Context`, `SamplerChain`). They refuse calls that would abort, crash or hang
llama.cpp; `app.settings.table` bounds the numbers of settings, and `child` tests unknown model files. Importing this
package does not load llama.cpp; its modules that call llama.cpp do.
"""
