"""The settings screen.

screen        the screen and its input fields     setting_list  settings to choose from, with details
edits         changes and their messages
"""
