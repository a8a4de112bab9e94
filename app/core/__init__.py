"""Errors, paths, units, safe files and child processes, without knowledge of models and chats."""
