"""Growing text as rows that are laid out once.

Textual's Markdown widget lays out a widget per block: 24 to 54 ms of CPU per streamed token below 5 to 20 exchanges;
these rows take about 4 ms (120 x 40 cells).

document    growing Markdown; finished blocks are frozen
blocks      the Markdown dialect, and a parsed block as rows
highlight   colors of code
rows        a line of text or of a table, and how it wraps
token_rows  text colored by the source of each token
"""
