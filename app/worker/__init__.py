"""One thread, or a child process, that owns every native handle.

engine_worker  the thread: loads a pair, answers requests, runs jobs
isolated       the same worker in a child process, which a native crash cannot take down with the program
responder      one answer: conversation in, events out
overflow       refuse a prompt that is longer than the context
commands       load a pair, answer, run a job; the queue that both engines share
request        requests for answers, and the interface of a loaded pair
events         frozen values that leave the worker's thread
"""
