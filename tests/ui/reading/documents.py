"""Samples of broken Markdown."""

CODE = "Look:\n\n```python title=x\ndef f(a):\n\tif a:\n\n        return '``'\n```\n\nDone, `f` is **good**.\n"
OPEN_FENCE = "text\n```\nno language, no end [red]x[/red]\n\n\n  indented\n``\n"
LISTS = (
    "1. one\n   - nested *em*\n     more\n   - two\n\n     para\n2. two\n   ```sh\n   ls\n   ```\n\n"
    "   after\n1. three\n\n- a\n\n- b\n+ c\n"
)
TABLE = "Before\n| a | b |\n|:--|--:|\n| x | 1 |\n| longer `c` | 22 | extra |\n|  |\nlast | row\n\nAfter | no table\n"
MATHS = (
    "Let $x_1$ and $y_1$, \\(a_b*c*\\), $5 and $10:\n\\[\nx = y_1 * z_2\n+ \\frac{1}{2}\n\\]\nthen $$\\sum_i x_i$$\n"
)
HEADS = "# A\n\ntext\n----\n\nTwo\n===\n***\n#hashtag\n#\n***bold***\n"
QUOTES = "> one\n> - two\n>   three\nlazy\n>\n> ```\n> code\n> ```\n\nout\n\n> > deep\n"
HTML = "<div>\nhello\n</div>\n\nx <b>y</b> <!-- z --> <script>w</script>\n"
WIDE = (
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u4f60\u597d\u4e16\u754c "
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 e\u0301\n"
    "\n| \u4f60\u597d | \U0001f600 |\n|---|---|\n| \u4e16 | \u754c |\n"
)
LINKS = (
    '[text](https://x.org/a_b "ti") ![alt](u.png) <https://y.org> [ref]\n\n[ref]: http://def\n'
    "[js](javascript:alert(1))\n"
)
ODD = (
    "-\n\n  foo\n\n    indented code\n\n10) ten\n11) eleven\n\ta tab\n1986\\. year\n\n* * *\n  \n\n\n\n"
    "end  \nhard\\\nbreak"
)
HOSTILE = "\x1b]0;t\x07a\x1b[2Jb \u202ed [@click=app.quit]x[/] [/nonsense] `[red]y[/red]`\n"

ALL = {
    "code": CODE,
    "open fence": OPEN_FENCE,
    "lists": LISTS,
    "table": TABLE,
    "maths": MATHS,
    "heads": HEADS,
    "quotes": QUOTES,
    "html": HTML,
    "wide": WIDE,
    "links": LINKS,
    "odd": ODD,
    "hostile": HOSTILE,
}
