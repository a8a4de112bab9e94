"""What can be asked of the chat by name: slash commands, and what the command palette adds to them.

command      what a line that begins with a slash asks for       chat  whom it is asked
table        the commands, one line each           palette      what the palette can do in the chat
code_blocks  the code in an answer                 saving       the conversation as a file
help         what /help says
"""
