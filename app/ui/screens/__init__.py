"""One screen a file, its style sheet beside it; own_keys holds the user's keys against those of all of them."""
