"""Pairs of models on the screens: which there are, how setting one up goes, what to do when one does not fit.

setups         the pairs as the screens see them: values, and `PairService`, which hands them out
inquiry        the same of two models that somebody asks about
service, jobs  that service over the catalogue, this machine and the hub; what takes time has a thread of its own
lookout        what the pairs are held against: the machine, files, earlier answers
opened         which of them the chat has
tuning         the settings, and the way to load the open pair anew with them
list, card     the pairs to choose from            section     what is said above them
downloads      how far downloads are
ways, way_list the ways out of a pair that does not fit
"""
