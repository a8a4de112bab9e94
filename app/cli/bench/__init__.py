"""`tandem bench`: a suite of prompts by kind of text, with and without drafts."""
