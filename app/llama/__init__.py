"""The native boundary: the only importer of llama_cpp and ctypes.

Ints, floats, lists and NumPy rows leave this package; pointers and structs never do. Three classes own the three
kinds of native handle (`Model`, `Context`, `SamplerChain`), and every argument that would abort, crash or hang
llama.cpp is refused in front of them. Importing this package does not load llama.cpp; those of its modules that call
it do.
"""
