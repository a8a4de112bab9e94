"""Between the engine and the screens: what is asked of it, and what it says on its way from the worker's thread.

engine       what is asked of it
bridge       where events wait until the screen fetches them
listener     fetches them, at a pace that leaves the processor to the models (pace)
shared_ears  lets a screen on top of the chat hear what concerns its own requests
"""
