"""The patience of tests that wait for another thread, process or screen."""

HANGS_S = 600.0
"""Seconds after which a test reports a hang; beside busy processes, a few CPU seconds may take minutes."""
