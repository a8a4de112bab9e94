"""The terminal: its input and output (driver), frames (compositor, frame), the clipboard (copying)."""
