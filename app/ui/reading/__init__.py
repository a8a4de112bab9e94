"""Text that grows at its end, as rows that need no second look.

document    growing Markdown: what can no longer change is frozen, only the last block is read again
code table  the two kinds of block that grow without bound
blocks      a parsed block as rows             inline   emphasis, code, links
parser      the dialect                        mathematics  LaTeX that Markdown leaves alone
rows        one line of text and how it wraps  flow     rows laid out for a width
origins     who wrote which token              pieces   its bytes, as something to look at
rounds      one verify round as lines          ahead    what the first answer would wait for
wrapping    where a long line goes on          tabs     as spaces
"""
