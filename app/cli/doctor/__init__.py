"""`tandem doctor`: what this machine has, what is wrong, and what fixes it."""
