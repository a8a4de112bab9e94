"""`tandem settings`: what counts and why; what holds for all commands and conversations, set and unset."""
