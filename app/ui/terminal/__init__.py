"""The terminal: its input and native output (driver), and the clipboard (copying)."""
