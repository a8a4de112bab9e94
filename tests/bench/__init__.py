"""Benchmarks, run by hand. They measure ratios within one run, because the speed of a machine changes."""
