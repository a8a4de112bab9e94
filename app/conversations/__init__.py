"""Conversations as trees of messages, their store on disk, and files.

message, tree           messages, branches, why an answer is incomplete, and summaries of earlier messages
attached                files, pastes and pictures in front of a prompt
store, rows, journal    reads and writes; pictures; an answer that is being written
opening, database       the SQLite file and its backups; transactions, errors, tables and migrations
state_folder            the files of saved KV caches
search, titles          full-text search; titles made from prompts or by the model
export, importing       JSON and Markdown
"""
