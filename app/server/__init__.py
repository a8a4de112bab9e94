"""The HTTP server: APIs of OpenAI and Anthropic over one engine.

app            the table of routes, routes without answers, errors, and the socket
service        shared by the routes: access, bodies, jobs, and answers as streams of events or whole
engine_queue   queue of requests, one at a time, and counters; bridge between asyncio and the engine's thread
fields         read and validate JSON fields
content        text of message content, documents, results of tools
tools          tools, their choice and their calls in every API
conversation   messages in every API
answer         the engine's events as text, reasoning, tool calls and an end; the interface of the formats
chat, completions, responses, messages   request and response formats of each API
"""
