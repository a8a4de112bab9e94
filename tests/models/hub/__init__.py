"""A model hub on the loopback interface, for every test that asks a hub for something."""
