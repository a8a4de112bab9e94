"""Manners towards the terminal and the system.

sequences     what is said past the screen         paste_parser  pastes, taken whole
copying       to where other programs paste from   attention     telling a user who looks elsewhere
signals       being ended from outside             stderr_guard  keeps native output off the screen
windows_characters    what Windows' console tells in halves
"""
