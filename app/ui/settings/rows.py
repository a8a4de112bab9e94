"""From the settings to the rows of the panel, and from a key to the next value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.core.printable import printable
from app.models.context_limit import here, meant
from app.models.pair_info import PairInfo
from app.settings.kinds import Choice, Name, Number, Switch, Value
from app.settings.layers import Origin, Resolved
from app.settings.live import LiveSettings, Scope
from app.settings.thinking import NO_SWITCH
from app.settings.tree import SETTINGS, Setting
from app.ui.key_names import key
from app.ui.settings.line import Shown

PRESET = "preset"
_MOST_SENTENCES = 3


def rows(live: LiveSettings, scope: Scope, themes: Sequence[str], pair: PairInfo | None = None) -> list[Shown]:
    """Every setting as it stands.

    Args:
        live: The settings.
        scope: What a change is for.
        themes: The names of the themes there are.
        pair: What is loaded, or None.
    """
    now, waiting = live.resolved(), to_load(live, pair)
    wanted = {"on": True, "off": False}.get(str(now["answer.thinking"]))
    known: dict[str, Sequence[str]] = {PRESET: list(live.presets), "appearance.theme": themes}
    found = []
    for setting in SETTINGS:
        origin, unheard = now.origin(setting.name), _unheard(setting, pair, wanted)
        found.append(
            Shown(
                setting,
                now[setting.name],
                origin,
                below=now.over(setting.name) if origin is not Origin.DEFAULT else None,
                idle=bool(_is_idle(setting, now) or not_here(setting, scope) or unheard),
                waits=setting in waiting,
                options=_options(setting, known.get(setting.name, ())),
                because=now.meaning_fixed if setting.name == "draft.mode" else (),
                here=here(pair) if pair is not None and setting.name == "model.ctx" else unheard,
            )
        )
    return found


def _is_idle(setting: Setting, now: Resolved) -> bool:
    """Whether a setting does not matter by how others are set."""
    if setting.name == "answer.reasoning_effort":
        return now["answer.thinking"] == "off"
    mode = now["draft.mode"]
    if setting.only_fixed or setting.only_auto:
        return mode != ("fixed" if setting.only_fixed else "auto")
    return mode == "off" and setting.table == "draft" and setting.key != "mode"


def _unheard(setting: Setting, pair: PairInfo | None, wanted: bool | None) -> str:
    """That a wish changes nothing with the pair that is loaded, as a sentence; "" where it may.

    Args:
        setting: What is wished by it.
        pair: What is loaded.
        wanted: Whether it is to think, if anybody says so.
    """
    if pair is None:
        return ""
    if setting.name == "answer.thinking" and not pair.hears.wanted:
        return f"The loaded model {NO_SWITCH}."
    if setting.name == "answer.reasoning_effort" and wanted is not False and (why := pair.hears.no_effort(wanted)):
        return f"The loaded model {why}."
    return ""


def to_load(live: LiveSettings, pair: PairInfo | None) -> tuple[Setting, ...]:
    """What counts only when the models are loaded anew.

    A context that would be as long as it is, for the model was trained for no longer one, is nothing to load them for.
    """
    ctx = live.resolved()["model.ctx"]
    stays = pair is not None and (ctx is None or isinstance(ctx, int)) and meant(pair, ctx) == pair.n_ctx
    return tuple(setting for setting in live.waiting if not (stays and setting.name == "model.ctx"))


def not_here(setting: Setting, scope: Scope) -> str:
    """Why a setting cannot be changed for one conversation; "" if it can, or is for all."""
    if scope is Scope.CONVERSATION and not setting.in_conversation:
        return f"{setting.name} counts for all conversations; {key('settings.scope', 'tab')} changes for whom."
    return ""


def stepped(shown: Shown, by: int) -> tuple[Value] | None:
    """The value one further, in a tuple of its own; None where there is none."""
    kind = shown.setting.kind
    if shown.options:
        now = kind.show(shown.value)
        at = shown.options.index(now) + by if now in shown.options else 0
        return (kind.parse(shown.options[at % len(shown.options)]),)
    if isinstance(kind, Number) and isinstance(shown.value, int | float):
        value = max(kind.low, min(kind.high, round(shown.value + by * kind.step, 6)))
        return (int(value) if kind.whole else value,)
    return None


def troubles(live: LiveSettings) -> list[str]:
    """What does not count of the file, in lines."""
    sentences = live.sentences()
    told = [printable(sentence) for sentence in sentences[:_MOST_SENTENCES]]
    if len(sentences) > _MOST_SENTENCES:
        told.append(f"and {len(sentences) - _MOST_SENTENCES} more; tandem settings shows all")
    if live.content.unreadable:
        told.append(f"{key('settings.move', 'ctrl+o')} moves it away, so that a new one can be written.")
    return told


def whether_to_load(waiting: Iterable[Setting]) -> str:
    """The question whether settings that wait for the models to be loaded anew shall wait on."""
    names = ", ".join(setting.name for setting in waiting)
    now, later = key("settings.change", "enter"), key("settings.leave", "esc")
    return f"{names}: {now} loads the models anew, now; {later} leaves that for later."


def whether_to_reset() -> str:
    """The question whether no setting shall count any more."""
    again = key("settings.reset_all", "ctrl+l")
    return f"{again} again sets everything back, for all conversations; presets stay."


def whether_to_remove(preset: str) -> str:
    """The question whether a preset shall be forgotten."""
    again = key("settings.remove", "ctrl+k")
    return printable(f"{again} again removes the preset {preset}, and what it holds, for all conversations.")


def _options(setting: Setting, known: Sequence[str]) -> tuple[str, ...]:
    """What left and right choose from; `known` are the names that only the running program knows."""
    match setting.kind:
        case Choice(options):
            return options
        case Switch():
            return ("on", "off")
        case Name(word=word):
            return (*([word] if word else []), *known)
    return ()
