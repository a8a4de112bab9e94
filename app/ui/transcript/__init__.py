"""The open conversation on the screen: one widget that draws lines.

list        the messages of the branch and notices, with their keys and clicks
navigation  the chosen message, its code blocks, matches of a search
scroll      scrolling and drawing; a message is laid out when the reader comes near
answer      reasoning, Markdown or tokens, how it ended, and its fix, with keys
message     prompts and notices as stacked parts; the base of all messages
foldings    attachments, pictures, results and reasoning below a line that opens them
parts       stacked rows, Markdown and token text as lines
"""
