"""`tandem export` and `tandem import`: conversations as files."""
