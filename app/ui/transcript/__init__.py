"""The open conversation on the screen.

list     all messages and notices; the selected message
window   scrolling; mounts what is near
message  prompts, answers, problems, and how an answer ended   message_view  base class of messages
parts    Markdown, token text, attachments, reasoning, the first screen
preview  a picture of a prompt in half cells
"""
