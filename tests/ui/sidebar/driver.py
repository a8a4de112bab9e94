"""The side panel as text, for tests."""

from app.engine.stats import GenerationStats
from app.models.pair_info import PairInfo
from app.ui.sidebar.panel import live_groups
from app.ui.sidebar.readouts import Readouts
from tests.fake_engine import PAIR

SECOND = 1_000_000_000


def counted(seconds: float, tokens: int, rounds: int, drafted: int = 0, accepted: int = 0) -> GenerationStats:
    return GenerationStats(
        predicted_n=1 + tokens,
        predicted_ns=int(seconds * SECOND),
        verify_steps=rounds,
        drafted_steps=rounds if drafted else 0,
        draft_n=drafted,
        draft_n_accepted=accepted,
    )


def shown(readouts: Readouts, width: int = 30, pair: PairInfo = PAIR) -> str:
    return "\n".join(line.plain for group in live_groups(readouts, pair, width, detailed=True) for line in group)


def brief(readouts: Readouts) -> list[str]:
    return [line.plain for group in live_groups(readouts, None, 30, detailed=False) for line in group]
