"""The engine: token ids in, token ids out.

It knows no text, no library, no network and no clock but the one it is given; `app.engine.text` turns the bytes of
tokens into characters and is used beside the loop, not in it.
"""
