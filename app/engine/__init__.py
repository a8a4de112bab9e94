"""The engine: token ids in, token ids out.

It knows no text, no library, no network and no clock but the one it is given; `app.engine.text` turns the bytes of
tokens into characters and is used beside the loop, not in it.

    replays     answers played again: any strategy on them, the oracle, what a cost curve advises
    generator   the loop: draft, verify, accept, roll back
    strategies  how an answer is drafted: not at all, by fixed numbers, or by what is measured
    drafters    where drafts come from: a draft model, look-up          tuning  what batches cost, what gets accepted
    cache       what of a context stays                                 probability  a drafter's confidence
    interfaces  what models, samplers, drafters and strategies are to the loop          types, stats  values
"""
