"""What can be asked of the chat by name: slash commands, and what the command palette adds to them.

command              what a line that begins with a slash asks for
table                the commands, one line each
palette              what the palette can do with the conversation that goes on
conversation_facts   what the store has to say of conversations: what was asked, and one of them as a file
code_blocks          the code in an answer
"""
