"""Conversations as trees of messages, their store on disk, and files.

message, tree           messages, branches, and why an answer is incomplete
attached, textfile      files and pastes in front of a prompt
store, rows, journal    reads and writes; an answer that is being written
opening, database       the SQLite file, its transactions and errors
schema, backup          tables and migrations; daily backups
search, titles          full-text search; titles made from prompts
export, importing       JSON and Markdown
"""
