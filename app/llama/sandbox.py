"""Jinja's sandbox with a budget: what an untrusted template may reach, how long it may take, how much it may hold.

Jinja's own sandbox keeps a template away from Python. It does not keep it from looping for ever or from building a
string of gigabytes in one expression. Here every place where a template can make work or values is counted:

- passes of loops, calls, filters, tests, comparisons, operators and slices (`MAX_STEPS`), and the clock at each
  (`MAX_SECONDS`);
- the size of every value that one of these, a literal, a block or `~` makes, foreseen before it is made where one
  operation can grow it (`app.llama.template_limits`), and the size of all of them together (`MAX_MADE`).

What chat templates do not use and what is hard to bound is not there: lipsum, urlize, wordwrap, pprint, xmlattr, and
the methods translate, expandtabs, encode, to_bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from app.llama.template_limits import (
    BEFORE_FILTER,
    MAX_CHARACTERS,
    SCANNING_METHODS,
    WIDTH_FILTERS,
    WIDTH_METHODS,
    check_fields,
    check_growth,
    check_percent,
    check_power,
    check_product,
    check_replace,
    check_scan,
    check_widths,
    checked_join,
    weigh,
    weigh_alone,
)

MAX_STEPS = 1_000_000
"""A conversation of 1,000 messages needs some ten thousand."""
MAX_SECONDS = 2.0
"""For all renderings while a model is loaded, and for each prompt; 10,000 messages take a tenth of a second."""
MAX_MADE = 128 * MAX_CHARACTERS
"""Characters of all values created within one budget: a template may keep all of them in memory."""
MAX_SOURCE = 100_000
"""Characters of a template; the longest in use have thirty thousand. Compiling this many takes seconds."""
_MAX_COMPARED = 100

_MISSING_FILTERS = ("pprint", "urlize", "wordwrap", "xmlattr")
_MISSING_METHODS = ("translate", "expandtabs", "encode", "maketrans", "to_bytes", "from_bytes")


class BudgetError(SecurityError):
    """The budget is spent: every further rendering fails as well, until the budget is renewed."""


class _Namespace(Namespace):
    def __repr__(self) -> str:
        # Jinja's prints what it holds: two names for the same other namespace, forty times over, never end.
        return "<namespace>"


class _GenerationTag(Extension):
    """`{% generation %}` marks the assistant's words for training and prints its body."""

    tags = {"generation"}  # noqa: RUF012 - Jinja declares it so

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Instrument(NodeTransformer):
    """Puts the counters into a parsed template.

    They are attributes of the environment, not names: a template can give a name another meaning.
    """

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - Jinja's naming
        self._ticking(node)
        if isinstance(node.test, nodes.Expr):
            # What the condition leaves out never reaches the body.
            node.test = _call("weighed", [node.test])
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:  # noqa: N802
        return self._ticking(node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:  # noqa: N802
        return self._ticking(node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _call("join_texts", node.nodes)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        if len(node.ops) > _MAX_COMPARED:
            raise SecurityError("it compares too much at once")
        self.generic_visit(node)
        return _call("weighed", [node])

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        # A slice is a copy; anything else that is got was weighed when it was made.
        return _call("weighed", [node]) if isinstance(node.arg, nodes.Slice) else node

    def visit_List(self, node: nodes.List) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _call("weighed", [node])

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _call("weighed", [node])

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        # The left side of an assignment is a tuple too.
        return _call("weighed", [node]) if node.ctx == "load" else node

    def _ticking(self, node: nodes.For | nodes.Macro | nodes.CallBlock) -> nodes.Node:
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(_call("tick", []), lineno=node.lineno))
        return node


def _call(method: str, arguments: list[nodes.Expr]) -> nodes.Call:
    return nodes.Call(nodes.EnvironmentAttribute(method), arguments, [], None, None)


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment of one template.

    Args:
        **functions: What templates may call besides Jinja's own.
    """

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, **functions: Callable[..., Any]) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _GenerationTag])
        self.renew_budget()
        self.globals.update(functions, namespace=_Namespace)
        del self.globals["lipsum"]
        for name in _MISSING_FILTERS:
            del self.filters[name]
        self.filters = {name: self._guarded(name, f) for name, f in self.filters.items()}
        # `select` and its like call one for every element.
        tests: dict[str, Any] = {**self.tests}
        self.tests = {name: self._guarded(name, f) for name, f in tests.items()}
        # Blocks, macros and {% set %}...{% endset %} gather their text with this.
        self.concat = self._concat  # type: ignore[method-assign] # Jinja takes any function there

    def add_filter(self, name: str, function: Callable[..., Any]) -> None:
        """Let templates use a filter, within the budget."""
        self.filters[name] = self._guarded(name, function)

    def renew_budget(self) -> None:
        """Reset the steps, the size of the values and the deadline, which all renderings share until the next reset."""
        self._steps = self._made = 0
        self._deadline = time.monotonic() + MAX_SECONDS

    # Called by the compiled template

    def tick(self) -> None:
        """Count one step."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise BudgetError("it loops without end")
        if time.monotonic() > self._deadline:
            raise BudgetError(f"it takes longer than {MAX_SECONDS:.0f} s")

    def weighed(self, value: Any) -> Any:
        """A value that is not too large, and the step that made it."""
        self.tick()
        weigh(value)
        self._add(weigh_alone(value))
        return value

    def _add(self, size: int) -> None:
        self._made += size
        if self._made > MAX_MADE:
            raise BudgetError("its values together become too large")

    def join_texts(self, *parts: Any) -> str:
        """What `~` does."""
        return self._concat(map(str, parts))

    def _concat(self, parts: Iterable[str]) -> str:
        out: list[str] = []
        length = 0
        for part in parts:
            length += len(part)
            check_growth(length)
            out.append(part)
        self.tick()
        self._add(length)
        return "".join(out)

    # Overridden

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        if len(source) > MAX_SOURCE:
            raise SecurityError("it is too long")
        tree: nodes.Template = _Instrument().visit(super()._parse(source, name, filename))
        return tree.set_environment(self)  # type: ignore[return-value] # the same tree, though Jinja says any node

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        return super().is_safe_attribute(obj, attr, value) and attr not in _MISSING_METHODS

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 - as in Jinja
        owner, method = getattr(__obj, "__self__", None), getattr(__obj, "__name__", "")
        if isinstance(owner, str):
            if method in WIDTH_METHODS:
                check_widths(args)
            elif method in SCANNING_METHODS and args:
                check_scan(owner, args[0])
            elif method == "replace":
                check_replace(owner, *args[:2])
            elif method == "join" and args:
                args = (checked_join(owner, args[0]), *args[1:])
        return __self.weighed(super().call(__context, __obj, *args, **kwargs))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None

        def checked(*args: Any, **kwargs: Any) -> str:
            check_fields(value.__self__, [args, kwargs])
            return wrapped(*args, **kwargs)

        return checked

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "**":
            check_power(left, right)
        elif operator == "%" and isinstance(left, str):
            check_percent(left, right)
        elif operator == "*":
            check_product(left, right)
        elif operator == "+" and not (isinstance(left, int | float) or isinstance(right, int | float)):
            check_growth(weigh(left) + weigh(right))
        return self.weighed(super().call_binop(context, operator, left, right))

    def _guarded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        # Jinja marks filters that want the environment or the context first.
        first = 1 if hasattr(function, "jinja_pass_arg") else 0

        @wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            extra, (value, *rest) = args[:first], args[first:]
            if name in WIDTH_FILTERS:
                check_widths([*rest, *kwargs.values()])
            if name in BEFORE_FILTER:
                value = BEFORE_FILTER[name](self, value, rest, kwargs)
            return self.weighed(function(*extra, value, *rest, **kwargs))

        return guarded
