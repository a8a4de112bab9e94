"""The engine: token ids in, token ids out.

It imports no library and no other room, and reads no clock except the one it is given.

    generator   the loop: draft, verify, accept, roll back
    fixed       drafting with fixed parameters              plain   no drafting
    drafting_report  words for speedup, reasons and rates
    auto        drafting that tunes itself: step costs, acceptance, the rule that weighs them, and its guards
    drafters    sources of drafts: a draft model, n-grams
    inspection  the target's probabilities at each step
    cache       the part of a context that stays            probability   a draft model's confidence
    text        token bytes to text: segments, stop strings, reasoning; used beside the loop
    interfaces  models, samplers, drafters and strategies as the loop sees them     types, stats   values
"""
