"""What the chat screen does, one concern a module; the screen itself puts them together.

session      what is being talked about and what may be asked next: plain values, no widgets
bare_screen  the screen as all of the others see it
sending      from what was typed to the message that is sent; unsent  what waits for it
file_reading the files that it names, read beside everything else
asking       from a message to the engine          hearing       from the engine to the screen and the store
steering     editing, other answers; branches      whereabouts   from one conversation to another
tasks        what is written that is no prompt
own_settings the conversation's own settings       possible      which keys would do something
pair_loading another pair; pair_changes  one is loaded at a time; pair_notice  notice that the model changed
draft_switch drafting, on or off                ways_out      what keys can do about a failure
comparable   what it hands over for a comparison   wanted        the screens it wants on top of it
token_mode   looking behind an answer              inspector     its rounds, newest first
workspace    the conversation and what stands beside it; arrangement  by how wide the terminal is
"""
