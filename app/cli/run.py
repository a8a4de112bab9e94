"""`tandem run`: one prompt in, one answer out."""

import json
import queue
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.cli.command import STDIN
from app.cli.options import read_pair
from app.cli.output import LOADING, AnswerPrinter, status
from app.cli.report import as_json, ignored_flags, summary
from app.cli.run_tools import RunTools
from app.cli.running_server import ServerAnswer, server_for
from app.cli.setting_flags import in_flags
from app.cli.streams import cancel_on_interrupt, is_piped, is_silent, read_input
from app.conversations.attached import Attachment, compose
from app.conversations.message import Message, Prefill, Role
from app.conversations.tree import as_message
from app.core.errors import INTERRUPTED, AppError, StoppedError, UsageError
from app.core.fixes import quoted
from app.core.included import check_included, included, read_included
from app.core.log import guarded_stderr
from app.core.paths import log_file
from app.core.pictures import MARK, PictureData, PictureLimits
from app.core.printable import printable
from app.core.regular_file import read_user_text, user_text
from app.engine.events import PromptProgress, Step
from app.engine.types import FinishReason, Guidance
from app.models.pair_info import PairInfo
from app.settings.layers import Origin, Resolved, picture_limits
from app.worker.events import Event, Failed, Finished, Loaded, LoadProgress, Measuring, Notice
from app.worker.pair_loader import make_engine, received
from app.worker.request import AnswerRequest

_SILENCE_S = 2.0
"""Wait for input this long before showing what Tandem waits for."""


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Reports Ctrl+C or a termination signal."""


def run(
    prompt: str | None = None,
    prompt_file: Path | None = None,
    file: Sequence[Path] = (),
    prefill: str = "",
    json_schema: Path | None = None,
    grammar: Path | None = None,
    allow: Sequence[str] = (),
    *,
    no_server: bool = False,
    as_json: bool = False,
    **given: Any,
) -> int:
    """Answer one prompt."""
    is_stdin = prompt in (None, "-") and prompt_file in (None, STDIN)
    if is_stdin and STDIN in file:
        raise UsageError("Standard input cannot be both the prompt and a file.", "Give the prompt as an argument.")
    # Report a wrong file name even if no pair is set up.
    for each in file:
        if each != STDIN:
            check_included(each, str(each))
    guidance = _read_guidance(json_schema, grammar)
    words = _read_prompt(prompt, prompt_file)
    loader = read_pair(given)
    _report_references(prompt or "", file)
    # libtiff and other libraries print errors of a picture themselves.
    with guarded_stderr(log_file()):
        message = with_files(words, file, picture_limits(loader.settings), takes_stdin=not is_stdin)
    request = replace(
        AnswerRequest.of(loader.settings, [message]),
        prefill=Prefill(prefill) if prefill.strip() else None,
        guidance=guidance,
    )
    if request.guidance.has_grammar:
        # A grammar constrains the whole answer, so it allows no reasoning.
        request = replace(request, thinking=replace(request.thinking, enabled=False))
    uses_tools = loader.settings.origin("answer.tools") in (Origin.FLAG, Origin.PRESET)
    if allow and not uses_tools:
        raise UsageError("--allow needs --tools.", "For example: --tools files --allow read_file")
    if not (no_server or uses_tools) and (server := server_for(loader, given)) is not None:
        code = ServerAnswer(server, loader.settings, prefill, as_json=as_json).print(request)
        if code is not None:
            return code
    with guarded_stderr(log_file()):
        events: queue.SimpleQueue[Event | Interrupt] = queue.SimpleQueue()
        worker = make_engine(loader.process, events.put)
        listener = Listener(loader.settings, worker.cancel, prefill, as_json=as_json)
        if uses_tools:
            limit = loader.settings["answer.tool_rounds"]
            listener.tools = RunTools(request, worker.answer, events.put, allow, limit, listener.note)
        try:
            # An event, because the signal may arrive between a call and the next answer.
            with cancel_on_interrupt(lambda: events.put(Interrupt())):
                worker.load(loader)
                if listener.tools is not None:
                    listener.tools.start(loader.settings["answer.tools"])
                else:
                    worker.answer(request)
                return listener.listen(events)
        finally:
            status.clear()
            if listener.tools is not None:
                listener.tools.close()
            worker.close()


class Listener:
    """Follows the events of one answer and prints them; at an interrupt, calls `cancel` and stops the tools."""

    def __init__(self, settings: Resolved, cancel: Callable[[], object], prefill: str = "", *, as_json: bool) -> None:
        self._settings, self._cancel = settings, cancel
        self._printer = AnswerPrinter(sys.stdout, sys.stderr, prefill, as_json=as_json)
        self._pair: PairInfo | None = None
        self._notices: list[str] = []
        self.tools: RunTools | None = None

    def listen(self, events: queue.SimpleQueue[Event | Interrupt]) -> int:
        """Read events until the answer has ended; return the exit code."""
        status.show(LOADING)
        while True:
            event = received(events)
            if isinstance(event, Interrupt):
                self._cancel()
                if self.tools is not None:
                    self.tools.stop()
                continue
            if self.tools is not None and self._take_call(self.tools, event):
                continue
            match event:
                case LoadProgress(share=share):
                    status.show(f"{LOADING} {share:4.0%}")
                case Loaded(pair):
                    self._pair = pair
                    for text in ignored_flags(pair.thinking_support, self._settings):
                        self._notice(text)
                case Notice(text):
                    self._notice(text)
                case PromptProgress():
                    self._show(event.line())
                case Measuring():
                    self._show(event.line().capitalize())
                case Step(segments=segments):
                    self._printer.print([one for one in segments if not one.call])
                case Finished():
                    return self._finish(event)
                case Failed(error=error):
                    status.clear()
                    if isinstance(error, StoppedError):
                        return error.exit_code
                    self._printer.break_line()
                    raise error

    def _take_call(self, tools: RunTools, event: Event) -> bool:
        try:
            is_taken = tools.take(event)
        except AppError as error:
            if tools.finished is not None:
                self._printer.print_json({**self._json_of(tools.finished), "error": error.message})
            raise
        if is_taken and isinstance(event, Finished):
            # The model answers again with the results.
            self._printer.end_line()
        return is_taken

    def _json_of(self, event: Finished) -> dict[str, Any]:
        assert self._pair is not None
        return as_json(event, self._pair, self._notices, self.tools.calls if self.tools is not None else ())

    def _show(self, text: str) -> None:
        if not self._printer.holds_line:
            status.show(text)

    def note(self, text: str) -> None:
        """Print a line between two parts of the answer."""
        self._printer.break_line()
        status.say(printable(text))

    def _notice(self, text: str) -> None:
        self._notices.append(in_flags(text))
        if sys.stderr.isatty():
            self._printer.break_line()
        status.say(text)

    def _finish(self, event: Finished) -> int:
        assert self._pair is not None
        self._printer.finish(self._json_of(event), summary(event, self._pair))
        return INTERRUPTED if event.reason is FinishReason.CANCELLED else 0


def _read_guidance(schema_file: Path | None, grammar_file: Path | None) -> Guidance:
    if schema_file is not None and grammar_file is not None:
        raise UsageError("--json-schema and --grammar exclude each other.")
    if schema_file is not None:
        try:
            schema = json.loads(read_user_text(schema_file, str(schema_file)))
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{schema_file} is not valid JSON: {error}.", "Fix it there.") from None
        if not isinstance(schema, dict):
            raise UsageError(
                f"{schema_file} is no JSON schema: it must be an object.", 'The smallest is {"type": "object"}.'
            )
        return Guidance(schema=schema)
    return Guidance(read_user_text(grammar_file, str(grammar_file)) if grammar_file is not None else None)


def _report_references(prompt: str, files: Sequence[Path]) -> None:
    """Name the files that the chat would include for `@file` references in this prompt."""
    if "@" not in prompt:
        return
    from app.ui.composer.included_files import find_file, references

    named: dict[Path, str] = {}
    for reference in references(prompt):
        with suppress(AppError):
            if (found := find_file(reference, Path())) is not None:
                named[found[1]] = found[0]
    for path, name in named.items():
        if path not in files:
            status.say(f'"@{name}" is sent as text; --file {quoted(str(path))} includes the file.')


def with_files(prompt: str, files: Sequence[Path], limits: PictureLimits, *, takes_stdin: bool) -> Message:
    """Return the prompt after files, `-` for stdin, pictures first, as a message.

    With `takes_stdin`, a pipe comes first, as in `git diff | tandem run "Review this."`. Raises AppError for a file
    that is neither text nor a picture.
    """
    attached: list[Attachment] = []
    pictures: list[PictureData] = []
    if takes_stdin and STDIN not in files and is_piped():
        files = (STDIN, *files)
    for file in files:
        if file == STDIN:
            if is_silent(_SILENCE_S):
                status.say("Waiting for the end of standard input; use < /dev/null if there is none.")
            name, found = "standard input", included(read_input(), file, "Standard input", limits)
        else:
            name, found = str(file), read_included(file, str(file), limits)
        if not isinstance(found, str):
            pictures += found
        elif file != STDIN or found.strip():
            attached.append(Attachment(name, found))
    message = as_message(Role.USER, compose(prompt, attached))
    return replace(message, content=MARK * len(pictures) + message.content, pictures=tuple(pictures))


def _read_prompt(text: str | None, file: Path | None) -> str:
    if text is None and file is None and not sys.stdin.isatty():
        file = STDIN
    if (text is None) == (file is None):
        raise UsageError(
            "Give one prompt: as an argument, with --prompt-file, or - to read it from standard input.",
            'For example: tandem run "Why is the sky blue?"',
        )
    if text == "-" or file == STDIN:
        text = user_text(read_input(), "Standard input")
    elif file is not None:
        text = read_user_text(file, str(file))
    assert text is not None
    if not text.strip():
        raise UsageError("The prompt is empty.", 'For example: tandem run "Why is the sky blue?"')
    return text
