"""The conversation on the screen, however long it is.

list            all of it                          message, speech  one message, and what every message can do
exchange        the last prompt and its answer     attempt          what gave way to an answer that is awaited
view, window    which messages are mounted         absent, welcome  what stands for the others; what is there at first
column          where each of them is              plain_text       a long prompt
reasoning       a model's thinking                 folded           a text that a prompt includes
folding         what the two have in common
markdown        an answer                          token_view       the same answer token by token
ended           how it ended, in words
"""
