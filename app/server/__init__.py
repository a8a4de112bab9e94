"""The HTTP server: APIs of OpenAI and Anthropic over one engine.

app            routes, access, errors
engine_queue   queue of requests, one at a time; bridge between asyncio and the engine's thread
fields         read and validate JSON fields
conversation   messages and tools in every API
answer         convert the engine's events to text, reasoning, tool calls and an end
chat, completions, responses, messages   request and response formats of each API
metrics        counters, for Prometheus and for the terminal
"""
