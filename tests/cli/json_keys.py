"""Keys of the JSON that commands print; scripts depend on them."""

_KEYS = {
    "run": "text reasoning calls finish_reason seed notices device timings speculation models",
    "compare": "target draft device prompt sampling max_tokens rounds_asked rounds_done notices facts notes contenders",
    "bench": "type pair facts notes rows",
    "tune": "measured_at target draft device rows_ms draft_ms context_ns",
    "doctor": "version state summary machine llama advice pair causes terminal sections",
    "setup": "name target draft size default",
    "pairs list": "name title here default disk download size fit reason expected_tokens_per_second drafting",
    "pairs show": (
        "name title target draft family good_at license context tested_with published fit drafting download files "
        "on_disk licence"
    ),
    "pairs check": "target draft memory context compatible problems warnings draft_kind projector",
    "pairs find": "model parameters size from kind",
    "pairs add": "name target draft size default",
    "settings": "file pair settings presets keys problems",
    "settings show": "file pair settings presets keys problems",
    "settings path": "file",
    "tools": "file servers",
    "tools list": "file servers",
    "tools check": "servers",
    "tools revoke": "revoked",
    "tools path": "file",
    "export": "id title pinned tags updated",
}
JSON_KEYS = {command: tuple(keys.split()) for command, keys in _KEYS.items()}
_TIMING_KEYS = (
    "cache_n prompt_n prompt_ms prompt_per_token_ms prompt_per_second predicted_n predicted_ms "
    "predicted_per_token_ms predicted_per_second draft_n draft_n_accepted draft_prompt_ms tokens_per_second "
    "first_token_ms"
)
TIMINGS = tuple(_TIMING_KEYS.split())
"""Keys of `timings` in `run`, as in llama-server. `prompt_ms` is the prefill of both models; only `tokens_per_second`
includes the draft's prefill in the generation time."""
CATALOG_CHECK = ("pairs", "model", "state", "detail")
"""Keys of each file of `pairs check --all`."""
