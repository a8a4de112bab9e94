"""The HTTP server: APIs of OpenAI and Anthropic over one engine.

app            routes, access, errors
engine_queue   requests in order, one at a time; the bridge between asyncio and the engine's thread
fields         from JSON to checked values
conversation   messages and tools of all APIs
answer         from the engine's events to text, reasoning, calls and an end
chat, completions, responses, messages   the formats of each API
metrics        counters, for Prometheus and for the terminal
"""
