"""A model hub on the loopback interface for tests."""
