"""Compare answers with and without drafts.

race         sides answer one prompt in turn
job          one comparison as a job of the worker (f2, `tandem compare`)
measure      speeds, ranges, and when a difference is more than noise
difference   the first different token of two answers, and why
drafts       several draft models of one target
benchmark    prompts by kind of text, and their races
report       a comparison as text, JSON and Markdown; `card` a benchmark
history      earlier results on this machine
"""

PLAIN, AUTOMATIC = "plain", "automatic"
"""Names of two sides: no draft and automatic drafting."""
