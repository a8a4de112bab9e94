"""Pairs of models: the known pairs, their setup, and options for a pair that does not fit.

state      pairs and setups as frozen values
opener     requests to load a pair with the current settings
service    the owner of all pairs and setups, over the catalog, this machine and Hugging Face
pair_list  the list of pairs               downloads    progress of downloads
fit_options  options for a pair that does not fit
setup_screen, add_pair_screen
"""
