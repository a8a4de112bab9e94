"""Benchmarks: ratios within one run, never absolute figures, because machines drift. Not part of the tests."""
