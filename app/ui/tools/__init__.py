"""Tools in the chat.

question  asks whether a call may run
screen    servers, their tools, and where they are on
"""
