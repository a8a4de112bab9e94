"""Conversations: values, no storage yet and no model."""
