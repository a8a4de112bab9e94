"""The open conversation on the screen.

list          all messages and notices; the chosen message
branch        one branch of the conversation as entries
view          scrolling: what is mounted, following the end
window        lays out the mounted entries
column        the position of every entry
message       prompts, answers, problems      message_view  what all messages share
message_data  a message that is not mounted   text_views    Markdown, plain and token text
foldable      attachments and reasoning       ended         how an answer ended, in words
welcome       the first screen
"""
