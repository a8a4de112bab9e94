"""The chat's conversations in the store. Knows no widget: everything here is called on the screen's thread.

keeper        answers, written down while they come; over it all the rest:
conversation  the one that goes on, with its branches      shelf  all of them: listed, named, pinned, deleted
kept          what is kept of them, as values              disk   a store that refuses is a sentence, and the chat goes
                                                                  on in memory
"""
