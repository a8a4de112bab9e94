"""The terminal: its input and native output (driver), frames (compositor, frame, writer), the clipboard (copying)."""
