"""Jinja's immutable sandbox with limits on time and on the size of values, for templates from untrusted files.

Jinja isolates a template from Python, but allows endless loops and unlimited memory:

- it is rendered on its own thread, in which an exception ends every loop at the time limit; on Linux, the CPU time of
  the thread counts, because a short rendering takes long on a busy machine;
- the size of every value of an expression is checked, because a single call into C cannot be interrupted.

Only the filters and the methods of texts that chat templates use are allowed.
"""

from __future__ import annotations

import ctypes
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import wraps
from queue import SimpleQueue
from typing import Any, TypeVar

from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.filters import make_attrgetter
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from app.llama.sandbox_sizes import (
    ELEMENT,
    MAX_CHARACTERS,
    MAX_GROWTH,
    GrowingList,
    check_arguments,
    joinable,
    refuse_over,
    size_of,
)

MAX_SECONDS = 2.0
"""Time limit for all renderings while a model is loaded, and for each prompt; 10,000 messages take 0.1 s."""
MAX_SOURCE = 100_000
"""Longest template in characters; known templates have up to 30,000."""
MAX_MADE = 128 * MAX_CHARACTERS
"""Total characters of all values within a budget: a template may keep all of them in memory."""
_AGAIN_S = 0.1
_SHORTEST_WAIT_S = 0.01
_MAX_COMPARED = 100

_ALLOWED_FILTERS = """
abs attr capitalize count d default dictsort e escape first float groupby indent int items join last length list lower
map max min reject rejectattr replace reverse round safe select selectattr sort string title tojson trim unique upper
"""
_TEXT_METHODS = """
capitalize count endswith find index isalnum isalpha isdigit islower isnumeric isspace isupper join lower lstrip
partition removeprefix removesuffix replace rfind rpartition rsplit rstrip split splitlines startswith strip title upper
"""
_SIMPLE_LAYOUT = re.compile(r"(?:[^{}]|\{\{|\}\}|\{\w*\})*")
"""A `str.format` layout whose fields have neither a width nor attributes."""

_Result = TypeVar("_Result")


class BudgetError(SecurityError):
    """The time or memory budget is spent; renderings fail until it is renewed."""


class _Namespace(Namespace):
    def __repr__(self) -> str:
        # Jinja's own class prints its values: mutually nested namespaces would print forever.
        return "<namespace>"


class _GenerationTag(Extension):
    """`{% generation %}` marks answers for training and prints its body."""

    tags = {"generation"}  # noqa: RUF012 - Jinja declares it so

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _SizeChecks(NodeTransformer):
    """Wraps expressions that create values, for which the sandbox has no hook."""

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        super().generic_visit(node, *args, **kwargs)
        if isinstance(node, nodes.Compare) and len(node.ops) > _MAX_COMPARED:
            raise SecurityError("it compares too much at once")
        if isinstance(node, nodes.Concat):
            return _call("join_texts", node.nodes)
        makes_value = isinstance(node, nodes.List | nodes.Dict | nodes.Compare)
        # The left side of an assignment is a tuple too.
        is_tuple = isinstance(node, nodes.Tuple) and node.ctx == "load"
        is_slice = isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice)
        return _call("checked", [node]) if makes_value or is_tuple or is_slice else node


def _call(method: str, arguments: list[Any]) -> nodes.Call:
    # Use an attribute of the environment instead of a name, which a template could redefine.
    return nodes.Call(nodes.EnvironmentAttribute(method), arguments, [], None, None)


def _thread_clock() -> Callable[[], float]:
    """Return a function that reads the time of this thread, from any thread."""
    if sys.platform != "linux":
        began = time.monotonic()
        return lambda: time.monotonic() - began
    clock = time.pthread_getcpuclockid(threading.get_ident())
    return lambda: time.clock_gettime(clock)


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment of one template.

    Args:
        **functions: Functions for templates in addition to Jinja's own.
    """

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, **functions: Callable[..., Any]) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _GenerationTag])
        self.renew_budget()
        self.globals.update(functions, namespace=_Namespace)
        del self.globals["lipsum"]
        allowed = _ALLOWED_FILTERS.split()
        self.filters = {n: self._guarded(n, f) if n in allowed else _refused(n) for n, f in self.filters.items()}
        # Blocks, macros and {% set %}...{% endset %} join their text with this.
        self.concat = self._concat  # type: ignore[method-assign] # Jinja takes any function there

    def add_filter(self, name: str, function: Callable[..., Any]) -> None:
        """Let templates use a filter, within the budget."""
        self.filters[name] = self._guarded(name, function)

    def renew_budget(self) -> None:
        """Reset the time and memory that all renderings share."""
        self._made = 0
        self._left_s = MAX_SECONDS

    def within_time(self, work: Callable[[], _Result]) -> _Result:
        """Call a function on its own thread; end it and raise BudgetError when the time budget is spent.

        An exception between two bytecodes ends it, even in a loop that calls nothing.
        """
        results: list[_Result] = []
        errors: list[Exception] = []
        clocks: SimpleQueue[Callable[[], float]] = SimpleQueue()
        used_s: list[float] = []

        def run() -> None:
            read_s = _thread_clock()
            clocks.put(read_s)
            try:
                results.append(work())
            except Exception as error:
                errors.append(error)
            used_s.append(read_s())

        thread = threading.Thread(target=run, name="template", daemon=True)
        thread.start()
        read_s = clocks.get()
        # The clock of a thread that has ended cannot be read.
        with suppress(OSError):
            while thread.is_alive() and (left_s := self._left_s - read_s()) > 0:
                thread.join(max(left_s, _SHORTEST_WAIT_S))
        while thread.is_alive():
            # Repeat, because an exception in a finalizer is ignored. The thread ends silently with this exception.
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
            thread.join(_AGAIN_S)
        self._left_s = self._left_s - used_s[0] if used_s else 0.0
        if errors:
            raise errors[0]
        if not results or self._left_s <= 0:
            raise BudgetError(f"it takes longer than {MAX_SECONDS:.0f} s")
        return results[0]

    # Called by the compiled template

    def checked(self, value: Any) -> Any:
        """Return a value unless it is too large."""
        size_of(value)
        self._count(value)
        if type(value) is not list:
            return value
        out = GrowingList(value)
        out.on_text = self._count
        return out

    def _count(self, value: Any) -> None:
        # Elements were counted when they were created.
        is_text = isinstance(value, str | bytes)
        is_list = isinstance(value, dict | list | tuple | set | frozenset)
        self._made += len(value) if is_text else ELEMENT * (len(value) + 1 if is_list else 1)
        if self._made > MAX_MADE:
            raise BudgetError("its values together become too large")

    def join_texts(self, *parts: Any) -> str:
        """Return the result of `~` for its operands."""
        return self._concat(map(str, parts))

    def _concat(self, parts: Iterable[str]) -> str:
        out: list[str] = []
        length = 0
        for part in parts:
            length += len(part)
            refuse_over(length, MAX_CHARACTERS)
            out.append(part)
        text = "".join(out)
        self._count(text)
        return text

    # Overridden

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        if len(source) > MAX_SOURCE:
            raise SecurityError("it is too long")
        tree: nodes.Template = _SizeChecks().visit(super()._parse(source, name, filename))
        return tree.set_environment(self)  # type: ignore[return-value] # the same tree, though Jinja says any node

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, GrowingList) and attr in ("append", "pop"):
            # llama.cpp lets templates change lists, which Kimi's do.
            return True
        if isinstance(obj, int | float | bytes) or (isinstance(obj, str) and attr not in _TEXT_METHODS.split()):
            return False
        return super().is_safe_attribute(obj, attr, value)

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 - as in Jinja
        owner, method = getattr(__obj, "__self__", None), getattr(__obj, "__name__", "")
        if isinstance(owner, str):
            if method == "join" and args:
                args = (joinable(owner, args[0]), *args[1:])
            else:
                check_arguments(method, owner, [*args, *kwargs.values()])
        return __self.checked(super().call(__context, __obj, *args, **kwargs))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None

        def checked(*args: Any, **kwargs: Any) -> str:
            layout = value.__self__
            if not _SIMPLE_LAYOUT.fullmatch(layout):
                raise SecurityError("a format is not a simple one")
            refuse_over(len(layout) + layout.count("{") * size_of([args, kwargs]), MAX_GROWTH)
            return wrapped(*args, **kwargs)

        return checked

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "**":
            if not (isinstance(left, int | float) and isinstance(right, int | float)) or abs(left) > 1e6 or right > 64:
                raise SecurityError("a power is too large")
        elif operator == "%" and isinstance(left, str):
            raise SecurityError("texts cannot be formatted")
        elif operator == "*":
            for value, times in ((left, right), (right, left)):
                if isinstance(times, int) and not isinstance(value, int | float):
                    refuse_over(size_of(value) * max(times, 0), MAX_CHARACTERS)
        elif operator == "+" and not (isinstance(left, int | float) or isinstance(right, int | float)):
            refuse_over(size_of(left) + size_of(right), MAX_CHARACTERS)
        return self.checked(super().call_binop(context, operator, left, right))

    def _guarded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        # Jinja marks filters that take the environment or the context first.
        first = 1 if hasattr(function, "jinja_pass_arg") else 0

        @wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            extra, (value, *rest) = args[:first], args[first:]
            if name == "join":
                attribute = rest.pop(1) if len(rest) > 1 else kwargs.pop("attribute", None)
                if attribute is not None:
                    value = map(make_attrgetter(self, attribute), value)
                value = joinable(str(rest[0] if rest else kwargs.get("d", "")), value)
            else:
                check_arguments(name, value, [*rest, *kwargs.values()])
            return self.checked(function(*extra, value, *rest, **kwargs))

        return guarded


def _refused(name: str) -> Callable[..., Any]:
    # A missing filter would fail at compilation, even if it is never used.
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise SecurityError(f"the filter {name} is not allowed")

    return refuse
