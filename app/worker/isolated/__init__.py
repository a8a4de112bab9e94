"""The engine worker in a process of its own, so that a native library that dies takes only itself down."""
