"""One thread, or a child process, that owns every native handle.

engine_worker  the thread: loads a pair, answers requests, runs jobs
isolated       the same worker in a child process, which a native crash cannot take down with the program
responder      one answer: conversation in, events out
counting       a job that counts the tokens of a text
overflow       refuse a prompt that is longer than the context
commands       what an engine can be told to do
request        what to answer, and the interface of a loaded pair
events         frozen values that leave the worker's thread
"""
