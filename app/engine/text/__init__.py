"""Token bytes to text: segments with their origin, stop strings, reasoning markup."""
