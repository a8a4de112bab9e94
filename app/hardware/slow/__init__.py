"""Why a pair is slow.

Pure: a frozen view in, causes out. A cause that was measured carries the factor; what is only known to be so on other
machines is said so, and its weight serves for the order alone.
"""
