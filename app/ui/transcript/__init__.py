"""The open conversation on the screen.

list      all messages and notices; the selected message
window    scrolling; mounts what is near
message   prompts, answers, problems   message_view  base class of messages
foldable  attachments and reasoning    text_views    Markdown and token text
ended     how an answer ended          welcome       the first screen
"""
