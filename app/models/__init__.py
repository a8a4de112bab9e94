"""Find, check, size and install models.

catalog, registry        models.toml: recommended pairs; the registered pairs
source, gguf             where a model comes from; the header of its file
model_facts              properties read from a header
memory_estimate          bytes for weights, KV cache and buffers
compatibility            vocabularies, recurrent states, warnings
pair_summary, pair_info  names and sizes of a pair; a loaded pair
resolve, setup           find the files, download, verify, register
setup_task               a setup on a thread, for the command line and the screen
progress                 progress of header requests and downloads
hub                      Hugging Face: search, headers, downloads; the only importer of its client
"""
