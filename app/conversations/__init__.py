"""Conversations: a tree of messages, their store on disk, and how they come in and go out as files."""
