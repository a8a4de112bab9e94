"""What stands in the place of a model file and is none, in words, as far as its beginning tells."""

from __future__ import annotations

LOOK = 64
"""Bytes of a beginning that are enough to tell."""
_BEGINNINGS = {
    b"version https://git-lfs": "Git put a pointer in its place, and git lfs pull brings the file",
    b"<!doctype html": "it is a web page",
    b"<html": "it is a web page",
    b"pk\x03\x04": "it is a ZIP archive",
}


def told(beginning: bytes) -> str:
    """What it is, as the end of a sentence; empty where that is not known."""
    text = beginning.lstrip().lower()
    return next((what for start, what in _BEGINNINGS.items() if text.startswith(start)), "")
