"""`tandem compare`: one prompt with and without drafts, side by side."""
