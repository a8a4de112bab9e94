"""The HTTP server: APIs of OpenAI and Anthropic over one engine.

app            the table of routes, and errors
access         API key, host names, pages of browsers
service        what the routes share; bodies and jobs
answering      answers as streams of events or whole
about          routes without answers
engine_queue   queue of requests, one at a time; bridge between asyncio and the engine's thread
fields         read and validate JSON fields
content        text of message content, documents, results of tools
tools          tools, their choice and their calls in every API
conversation   messages in every API
answer         convert the engine's events to text, reasoning, tool calls and an end
chat, completions, responses, messages, native   request and response formats of each API
metrics        counters, for Prometheus and for the terminal
"""
