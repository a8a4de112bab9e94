"""What the chat screen does, one concern a module; the screen itself puts them together.

session      what is being talked about and what may be asked next: plain values, no widgets
sending      from what was typed to the message that is sent
hearing      from what the engine says to the screen and the store
steering     editing, other answers, branches      whereabouts   from one conversation to another
own_settings the conversation's own settings       pair_changes  one pair is loaded at a time
token_mode   looking behind an answer              inspector     its rounds, one at a time
workspace    the conversation and what stands beside it; arrangement  by how wide the terminal is
"""
