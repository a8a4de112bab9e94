"""One thread, or a child process, that owns every native handle.

pair_loader      a pair with its settings, as a command that loads it; creates the engine that runs it
loading          plan how a pair is loaded on this machine, and load it
known_pairs      the pairs that this machine knows, with their files and settings
engine_worker    commands and their queue, and the thread: loads a pair, answers requests, runs jobs
isolated_engine  the same worker in a child process, so that a native crash does not end the program
engine_process   that child: the parent's handle on it, and its main loop
jobs             answer, name a conversation, measure a pair, and describe tokens and prompts
responder        one answer: conversation in, events out
request          requests for answers, the refusal of long requests, helpers for the pair
tool_servers     MCP servers on one thread, over mcp_connection; mcp_failure words their errors
events           frozen values that leave the worker's thread
"""
