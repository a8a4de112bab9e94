"""With and without, side by side: races on one loaded pair, what they mean, and how to keep and show it.

    race        contenders take turns on one prompt; a generator of events, so that a screen can show both
    start       what both models have read when a run begins
    sides       who takes part, as values
    tap         which tokens an answer is made of; steps  a generator that also returns something
    job         a whole comparison as a value, for the engine's worker
    measure     medians, spreads, and the words for them; figures  those of one side, for a table
    difference  the first token at which two answers differ, and why; difference_lines  the same in words
    lossless    greedy answers token by token, sampled ones by a chi-square test; chisquare  the test
    suite       prompts of our own by kind of text, and the reader's; kinds  what these are
    benchmark   the suite as races; bound  what their drafts could bring at most; time_left  how long the rest takes
    server      a running llama-server as a contender; completion  what it is asked and what it answers
    history     results kept per machine and pair, and what made a later one slower
    report      races and benchmarks in words and as JSON
    card        a result as Markdown and as a picture
    note        one comparison as Markdown, with the texts

Nothing here knows a library or a screen; models come as an `app.request.LoadedPair`.
"""
