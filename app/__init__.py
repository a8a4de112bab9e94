"""Tandem: terminal chat in which a small draft model runs ahead and the big target model checks.

The house, from the door inwards; imports run downwards only (`tool.importlinter` in pyproject.toml holds it):

    cli         the commands; puts the parts together; imports what a command needs when it runs
    ui          the only importer of textual: the chat screen and its widgets
    worker      one thread that owns every native handle; commands in by a queue, events out by a callback
    llama       the only importer of llama_cpp and ctypes: models, contexts, samplers, chat templates, pairs
    hardware    what the machine has
    responder   one answer: conversation in, text events out, over whatever models stand behind the interfaces
    events      the frozen values that cross from the worker's thread
    catalog     models.toml: pairs by name          chat    conversations as values
    settings    every setting once: its name, flag, range and text; settings.toml; who has the say
    engine      token ids in, token ids out: draft, verify, accept, roll back; no library, no text
    gguf        the header of a model file          paths   where things live
    errors      every failure that a user can cause, with a sentence and a way out
"""

__version__ = "0.1.0"
