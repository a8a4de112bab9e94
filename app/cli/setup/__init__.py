"""`tandem setup`: one command from nothing to a pair that answers."""
