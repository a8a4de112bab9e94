"""Widgets on top of each other, each as high as what it says."""

from __future__ import annotations

from textual.geometry import Size
from textual.layout import DockArrangeResult
from textual.widget import Widget


class Stack(Widget):
    """A container whose children do not depend on how high it is.

    Textual lays its children out twice whenever one of them has grown: to learn how high they are, and once more at
    that height. Among the last of the base classes, as `Even`.
    """

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        return super().arrange(size.with_height(0), optimal)
