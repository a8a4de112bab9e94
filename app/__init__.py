"""Tandem: terminal chat in which a small draft model runs ahead and the big target model checks.

The house, from the door inwards; imports run downwards only (`tool.importlinter` in pyproject.toml holds it):

    cli         the commands; puts the parts together; imports what a command needs when it runs
    ui          the only importer of textual: screens, widgets, and what is between them and the engine
    isolated    the same worker in a process of its own, which may die
    worker      one thread that owns every native handle; commands in by a queue, events out by a callback
    fitting     a pair held against this machine: what it takes, where it goes, the ways out where it does not fit
    llama       the only importer of llama_cpp and ctypes: models, contexts, samplers, chat templates, pairs
    hardware    what the machine has, what fits, what is wrong and what mends it
    memory_store, thread_store    what was measured of a pair, on disk
    compare     races with and without drafts: who wins, where texts differ and why, suites, history, reports
    recording   traces of real answers, for replays
    responder   one answer: conversation in, text events out, over whatever models stand behind the interfaces
    counting    how many tokens a text is, by the loaded vocabulary
    overflow    what does not fit into the context is refused, and says whose length it is
    request     what a pair is and what is asked of it
    context_limit   how long a context can be, and why not longer
    events      the frozen values that cross from the worker's thread
    pairing     from a wish to a pair on disk: propose, check, download, remember
    hub         the only importer of the hub's client           registry    the pairs that were set up here
    catalog, catalog_table    models.toml: pairs by name        chat        conversations: a tree, a store, a journal
    settings    every setting once: its name, flag, range and text; settings.toml; who has the say
    source      where a model comes from                        child       processes that may die
    working     the memory that a pair works with, besides its weights
    drafting_report    speedup, verdict, reason and tok/s as text, for screens and commands
    engine      token ids in, token ids out: draft, verify, accept, roll back; no library, no text
    gguf        the header of a model file                      model_names     what a model is called everywhere
    processors  those that may be used, and what other programs do with them
    waking_clock  time in which this process ran                thinking    whether a model thinks before it answers
    paths, sizes, json_file, toml_error, atomic, file_lock
    split_model  the parts of a model in several files    foreign_file  what is no model file, in words
    kv_types    what a KV cache can hold, and what that takes      layers      where layers go, in terms that all share
    regular_file  files, read; a pipe in the place of one is not waited for    file_name  what one may be called
    installed_program   one of the system or of a vendor, where it is installed    limited_run   one, for so long
    shell       words of commands that are shown, as the user's shell takes them
    errors      every failure that a user can cause, with a sentence and a way out
"""

__version__ = "0.1.0"
