"""Find, check, size and install models.

pairing         from a request to a pair on disk: propose, check, download, remember
hub             Hugging Face: search, headers, downloads; the only importer of its client
registry        the pairs that were set up here
catalog         models.toml: recommended pairs by name
gguf            the header of a model file
source          where a model comes from: a file, a URL, a repository
context_limit   the longest usable context of a loaded pair, and the reason
pair_info       a loaded pair as values
working_memory  memory that a pair needs besides its weights
model_names, split_model, foreign_file    names and parts of files
"""
