"""Compare answers with and without drafts.

race         sides answer one prompt in turn; `recorder` makes the loaded pair one of them, `server` llama-server
sides, job   the usual sides; one comparison as a job of the worker (f2, `tandem compare`)
measure      speeds, ranges, and when a difference is more than noise
difference   the first different token of two answers, and why
lossless     tests that drafts do not change the distribution
suite        prompts by kind of text; `benchmark` races them all, `upper_bound` estimates what drafts could reach
report       a comparison as text, JSON and Markdown; `card` a benchmark
history      earlier results on this machine
"""
