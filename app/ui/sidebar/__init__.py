"""What is measured of answers, and how it is shown.

state       what is going on and how fast; recent  the last rounds of it
numbers     one answer's, from its counters or from the store
effects     what drafting has brought since the pair was loaded
steady      what drafts and why, for as long as it takes to read
groups      the numbers as lines of text           panel, status_line  where they stand
"""
