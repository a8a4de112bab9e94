"""The engine: token ids in, token ids out. It imports no library and no other room but core.

generator   the loop: draft, verify, accept, roll back
fixed       drafting with fixed parameters
no_draft    no drafting
drafting_report  texts for speedup, reasons and rates
auto        drafting that tunes itself: step costs, acceptance, the rule that weighs them, and its guards
drafters    sources of drafts: a draft model, n-grams
cache       tokens in a KV cache, reused by the next prompt
probability the confidence of a draft model
verify      the rule that makes drafting lossless
vocab       whether two vocabularies are compatible
repetition  detect answers that loop
text        token bytes to text: segments, stop strings, reasoning
interfaces  protocols of models, samplers, drafters and strategies
types, stats  values
"""
