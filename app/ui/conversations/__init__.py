"""The conversations to choose from.

list     one line each             picker       the list with the line that searches it
sidebar  the picker beside the chat                title_input  where one gets another title
"""
