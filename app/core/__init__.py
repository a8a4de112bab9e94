"""Errors, paths, units, safe files and child processes; knows no models and no chats."""
