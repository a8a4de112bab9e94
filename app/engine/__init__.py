"""The engine: token ids in, token ids out. Its only imports are NumPy and `app.core`.

generator            the loop: draft, verify, accept, roll back
fixed                drafting with fixed parameters, and no drafting
auto                 drafting that tunes itself: costs, acceptance, the rule that weighs them, and its guards
draft_model          drafts of a draft model, and of layers that read the target's hidden rows
ngram                drafts of earlier n-grams
cache                tokens in a KV cache, reused by the next prompt
prompt_cache         caches of other conversations, saved and restored
probability          the confidence of a draft model
vocab_compatibility  compatibility of two vocabularies
text                 token bytes to text: segments, stop strings, reasoning, repetition
drafting_report      texts about speedup, reasons and rates
interfaces           protocols of models, samplers, drafters and strategies
types, stats         values
"""
