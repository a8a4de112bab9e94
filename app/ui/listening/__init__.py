"""What the engine says, on its way from the worker's thread to the screens.

bridge       where events wait until the screen fetches them
listener     fetches them, at a pace that leaves the processor to the models (pace)
shared_ears  lets a screen on top of the chat hear what concerns its own requests
"""
