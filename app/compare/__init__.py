"""Speed comparisons with and without drafts, on one loaded pair.

    race        contenders take turns on one prompt; a generator of events, so that a screen can show both
    start       the shared state at the start of a run
    sides       the contenders as values
    tap         records the tokens of an answer             steps         a generator that also returns a value
    job         a whole comparison as a value for the worker
    measure     medians, spreads and their words            figures       one side's numbers for a table
    difference  the first differing token and the reason    difference_lines  the same in words
    lossless    greedy answers token by token, sampled ones by a chi-square test     chisquare  the test
    suite       built-in prompts by kind of text, and the user's     kinds  their names
    benchmark   the suite as races                          bound         upper bound of the speedup
    server      a running llama-server as a contender       completion    its requests and responses
    history     results per machine and pair, and reasons for a slowdown     time_left  estimate of the time left
    report      races and benchmarks in words and as JSON
    card        a result as Markdown and as a picture       note          one comparison as Markdown, with the texts
    recording   traces of real answers                      replays       any strategy on a trace, without a model

Nothing here imports a native library or a screen; models come as an `app.worker.request.LoadedPair`.
"""
