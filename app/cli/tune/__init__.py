"""`tandem tune`: what batches cost here, measured, shown and kept."""
