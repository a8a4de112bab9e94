"""The open conversation on the screen: one widget that draws lines.

list        the messages of the branch and notices, with their keys and clicks
navigation  the chosen message, its code blocks, matches of a search
scroll      scrolling and drawing; a message is laid out when the reader comes near
message     prompts and notices as stacked parts; the base of all messages
answer      reasoning, Markdown or tokens, and how it ended
preview     a picture of a prompt in half cells
parts       Markdown, token text, attachments and reasoning as lines
endings     how an answer ended, and its fix, with keys
"""
