"""The engine worker in a child process, so that a crash of the native library does not end the program."""
