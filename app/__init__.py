"""Tandem: terminal chat with built-in speculative decoding.

A small draft model proposes tokens and the big target model verifies them. Each folder has one purpose.
Imports run downward only; the contracts in pyproject.toml enforce it.

    cli            one module per command and shared options; heavy imports happen when a command runs
    ui             the full-screen chat; the only importer of textual
    server         the same engine behind the APIs of OpenAI and Anthropic
    session        one chat as a state machine: conversation, running answer, settings, storage; no screen, no thread
    compare        speed comparisons: races, verdicts, suites, reports
    worker         one thread (or child process) that owns every native handle; commands in, frozen events out
    llama          the only importer of llama_cpp, llguidance and ctypes: models, samplers, grammars, templates, fitting
    hardware       CPUs, GPUs, memory and builds of this machine, and what `tandem doctor` checks
    models         find, check, size and install models; models.hub is the only importer of huggingface_hub
    conversations  messages as a tree, the SQLite store, search, import and export
    settings       every setting with its name, flag, range and text; precedence; settings.toml
    engine         token ids in, token ids out: draft, verify, accept, roll back; no library
    core           errors, paths, units, safe files, child processes; knows no models and no chats

Four boundaries to remember:

- `app.engine` runs without llama.cpp, so its tests use scripted models.
- Pointers and structs stay in `app.llama`; every native return code is checked there.
- Values that leave the worker's thread are frozen (`app.worker.events`); the screen only reads them.
- Sentences below cli, ui and server name settings and actions (`app.core.fixes`), never flags, keys or commands.

A new module goes into the lowest folder that knows all it needs. The root has no modules.
"""

__version__ = "0.1.0"
