"""Compare answers with and without drafts.

race         contenders answer one prompt in turns; `tap` makes the loaded pair one of them, `server` llama-server
job          one comparison as a job of the worker (f2, `tandem compare`)
measure      speeds, spreads, and when a difference is more than noise
difference   the first different token of two answers, and why
lossless     tests that drafts do not change the distribution
suite        prompts by kind of text; `benchmark` races them all, `bound` adds the upper bound
replay       any strategy on a recorded answer; `recording` records one, `advice` tries every fixed setting
report       tables, JSON; `note` and `card` for sharing; `history` of earlier results on this machine
"""
