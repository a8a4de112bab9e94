"""Formats of tool calls by model family: the only list of them, for readers and grammars.

Facts are from the families' chat templates and from llama.cpp's `common/chat.cpp` and `tests/test-chat.cpp`.
"""

from __future__ import annotations

from app.engine.text.call_format import Argument, CallFormat, Values

_CALL_OBJECT = '{"name": $JSON, "arguments": $ARGUMENTS}'
_DSML_ARGUMENT = Argument('<｜DSML｜parameter name="$KEY" string="$TEXT">', "</｜DSML｜parameter>\n")
_PYTHON_ARGUMENT = Argument("$KEY=", between=", ", quotes=(("'", "'"), ('"', '"')), values=Values.PYTHON)

HERMES = CallFormat(
    "hermes",
    ("<tool_call>",),
    f"<tool_call>\n{_CALL_OBJECT}\n</tool_call>",
    between="\n",
    also=("<function_call>", "<tools>", "<tool>", "```json"),
    alone=("", "```json", "```"),
)
"""Hermes, Qwen 2.5 and 3, Granite 4 and many others; also the format for templates that know no tools."""

FORMATS: tuple[CallFormat, ...] = (
    # Tagged arguments
    CallFormat(
        "minimax-m3",
        ("]<]minimax[>[",),
        ']<]minimax[>[<invoke name="$NAME">$ARGUMENTS]<]minimax[>[</invoke>\n',
        "]<]minimax[>[<tool_call>\n$CALLS]<]minimax[>[</tool_call>",
        argument=Argument("]<]minimax[>[<$KEY>", "]<]minimax[>[</$KEY>", values=Values.TAGS),
    ),
    CallFormat(
        "minimax-m2",
        ("minimax:tool_call",),
        '<invoke name="$NAME">\n$ARGUMENTS</invoke>\n',
        "<minimax:tool_call>\n$CALLS</minimax:tool_call>",
        argument=Argument('<parameter name="$KEY">', "</parameter>\n"),
    ),
    CallFormat(
        "seed",
        ("<seed:tool_call>",),
        "<seed:tool_call>\n<function=$NAME>\n$ARGUMENTS</function>\n</seed:tool_call>",
        between="\n",
        # The template writes lists and Boolean values as Python does.
        argument=Argument("<parameter=$KEY>", "</parameter>\n", values=Values.PYTHON),
    ),
    # Qwen3-Coder, Qwen 3.5, Nemotron 3 Nano, Step 3.5
    CallFormat(
        "qwen-xml",
        ("<function=", "<parameter="),
        "<tool_call>\n<function=$NAME>\n$ARGUMENTS</function>\n</tool_call>",
        between="\n",
        argument=Argument("<parameter=$KEY>\n", "\n</parameter>\n"),
        also=("<function=$NAME>",),
    ),
    CallFormat(
        "hunyuan",
        ("<arg_key{}>", "<tool_sep{}>"),
        "<tool_call:opensource>$NAME<tool_sep:opensource>\n$ARGUMENTS</tool_call:opensource>\n",
        "<tool_calls:opensource>\n$CALLS</tool_calls:opensource>",
        argument=Argument(
            "<arg_key:opensource>$KEY</arg_key:opensource>\n<arg_value:opensource>", "</arg_value:opensource>\n"
        ),
    ),
    # GLM, Ling, Laguna and Spark differ in white space.
    CallFormat(
        "glm",
        ("<arg_key>",),
        "<tool_call>$NAME\n$ARGUMENTS</tool_call>",
        between="\n",
        argument=Argument("<arg_key>$KEY</arg_key>\n<arg_value>", "</arg_value>\n"),
        alone=("$NAME\n",),
    ),
    CallFormat(
        "deepseek-v3.2",
        ("DSML", "function_calls>"),
        '<｜DSML｜invoke name="$NAME">\n$ARGUMENTS</｜DSML｜invoke>\n',
        "<｜DSML｜function_calls>\n$CALLS</｜DSML｜function_calls>",
        argument=_DSML_ARGUMENT,
    ),
    CallFormat(
        "deepseek-v4",
        ("DSML",),
        '<｜DSML｜invoke name="$NAME">\n$ARGUMENTS</｜DSML｜invoke>\n',
        "<｜DSML｜tool_calls>\n$CALLS</｜DSML｜tool_calls>",
        argument=_DSML_ARGUMENT,
    ),
    CallFormat(
        "kimi-k3",
        ("<|open|>", "<|close|>"),
        '<|open|>call tool="$NAME" index="$ID"<|sep|>$ARGUMENTS<|close|>call<|sep|>',
        "<|open|>tools<|sep|>$CALLS<|close|>tools<|sep|>",
        argument=Argument('<|open|>argument key="$KEY" type="$TYPE"<|sep|>', "<|close|>argument<|sep|>"),
    ),
    # Each call is a message to the tool.
    CallFormat(
        "muse",
        ("atem:function_calls",),
        '<atem:function_calls>\n<atem:invoke name="$NAME">\n$ARGUMENTS</atem:invoke>\n</atem:function_calls>',
        argument=Argument('<atem:parameter name="$KEY">', "</atem:parameter>\n"),
    ),
    CallFormat(
        "minicpm5",
        ("<function name=", "<param name="),
        '<function name="$NAME">$ARGUMENTS</function>',
        between="\n",
        argument=Argument('<param name="$KEY">', "</param>", quotes=(("<![CDATA[", "]]>"),), values=Values.PYTHON),
    ),
    # Keys without quotes
    CallFormat(
        "gemma4",
        ("<|tool_call>",),
        "<|tool_call>call:$NAME{$ARGUMENTS}<tool_call|>",
        argument=Argument("$KEY:", between=",", quotes=(('<|"|>', '<|"|>'),), values=Values.BARE),
    ),
    CallFormat(
        "functiongemma",
        ("<start_function_call>",),
        "<start_function_call>call:$NAME{$ARGUMENTS}<end_function_call>",
        argument=Argument("$KEY:", between=",", quotes=(("<escape>", "<escape>"),), values=Values.BARE),
    ),
    # Calls as in Python
    CallFormat(
        "lfm2",
        ("List of tools: ",),
        "$NAME($ARGUMENTS)",
        "<|tool_call_start|>[$CALLS]<|tool_call_end|>",
        ", ",
        _PYTHON_ARGUMENT,
        alone=("[$NAME(",),
    ),
    CallFormat(
        "llama4",
        ("<|python_start|>",),
        "$NAME($ARGUMENTS)",
        "<|python_start|>[$CALLS]<|python_end|>",
        ", ",
        _PYTHON_ARGUMENT,
    ),
    CallFormat(
        "olmo3",
        ("<function_calls>", "<functions>"),
        "$NAME($ARGUMENTS)",
        "<function_calls>$CALLS</function_calls>",
        "\n",
        _PYTHON_ARGUMENT,
    ),
    # A name, then an object of arguments
    CallFormat(
        "gpt-oss",
        ("<|channel|>", "<|message|>"),
        " to=functions.$NAME<|channel|>commentary json<|message|>$ARGUMENTS<|call|>",
        also=(
            "<|channel|>commentary to=functions.$NAME$HEADER",
            "<|channel|>analysis to=functions.$NAME$HEADER",
            "to=functions.$NAME$HEADER",
        ),
    ),
    CallFormat("mistral-id", ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"), "[TOOL_CALLS]$NAME[CALL_ID]$ID[ARGS]$ARGUMENTS"),
    CallFormat(
        "mistral-args", ("[TOOL_CALLS]", "[ARGS]"), "[TOOL_CALLS]$NAME[ARGS]$ARGUMENTS", also=("[TOOL_CALLS]$NAME\n",)
    ),
    # DeepSeek V3 and R1, then V3.1
    CallFormat(
        "deepseek-r1",
        ("<｜tool▁sep｜>", "```json"),
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>$NAME\n```json\n$ARGUMENTS\n```<｜tool▁call▁end｜>",
        "<｜tool▁calls▁begin｜>$CALLS<｜tool▁calls▁end｜>",
        "\n",
    ),
    CallFormat(
        "deepseek-v3.1",
        ("<｜tool▁sep｜>",),
        "<｜tool▁call▁begin｜>$NAME<｜tool▁sep｜>$ARGUMENTS<｜tool▁call▁end｜>",
        "<｜tool▁calls▁begin｜>$CALLS<｜tool▁calls▁end｜>",
    ),
    CallFormat(
        "kimi-k2",
        ("<|tool_call_begin|>",),
        "<|tool_call_begin|>functions.$NAME:$ID<|tool_call_argument_begin|>$ARGUMENTS<|tool_call_end|>",
        "<|tool_calls_section_begin|>$CALLS<|tool_calls_section_end|>",
        also=("<|tool_call_begin|>$NAME<|tool_call_argument_begin|>",),
    ),
    CallFormat(
        "solar",
        ("<|tool_call:begin|>",),
        "<|tool_call:begin|>$ID<|tool_call:name|>$NAME<|tool_call:args|>$ARGUMENTS<|tool_call:end|>",
        "<|tool_calls|>$CALLS<|calls|>",
    ),
    CallFormat("functionary-v3.1", ("<function", "python_tag"), "<function=$NAME>$ARGUMENTS</function>"),
    # The prompt ends with the first mark.
    CallFormat("functionary-v3.2", (">>>all",), ">>>$NAME\n$ARGUMENTS", alone=("$NAME\n",)),
    CallFormat(
        "apertus", ("<|tools_prefix|>",), '{"$NAME": $ARGUMENTS}', "<|tools_prefix|>[$CALLS]<|tools_suffix|>", ", "
    ),
    # Objects with a name and arguments
    CallFormat(
        "cohere",
        ("<|START_ACTION|>",),
        '{"tool_call_id": "$ID", "tool_name": $JSON, "parameters": $ARGUMENTS}',
        "<|START_ACTION|>[\n    $CALLS\n]<|END_ACTION|>",
        ",\n    ",
    ),
    CallFormat(
        "command-r-plus",
        ("Action:", "```json"),
        '{\n        "tool_name": $JSON,\n        "parameters": $ARGUMENTS\n    }',
        "Action:\n```json\n[\n    $CALLS\n]\n```",
        ",\n    ",
    ),
    CallFormat("mistral", ("[TOOL_CALLS]",), _CALL_OBJECT, "[TOOL_CALLS][$CALLS]", ", "),
    CallFormat("granite3", ("<|tool_call|>",), _CALL_OBJECT, "<|tool_call|>[$CALLS]", ", "),
    CallFormat("nemotron-v2", ("<TOOLCALL>",), _CALL_OBJECT, "<TOOLCALL>[$CALLS]</TOOLCALL>", ", "),
    # Apriel, Hunyuan A13B and Jamba write a list, MiniMax M1 an object in each line.
    CallFormat("apriel", ("<tool_calls>[",), _CALL_OBJECT, "<tool_calls>[$CALLS]</tool_calls>", ", "),
    CallFormat("minimax-m1", ("<tool_calls>",), f"{_CALL_OBJECT}\n", "<tool_calls>\n$CALLS</tool_calls>"),
    CallFormat("firefunction", ("functools[",), _CALL_OBJECT, " functools[$CALLS]", ", "),
    CallFormat(
        "internlm",
        ("<|action_start|>",),
        '<|action_start|><|plugin|>{"name": $JSON, "parameters": $ARGUMENTS}<|action_end|>',
    ),
    CallFormat("gigachat3.1", ("<|function_call|>",), f"<|function_call|>{_CALL_OBJECT}"),
    CallFormat(
        "gigachat3",
        ("function call", "role_sep"),
        f"function call<|role_sep|>\n{_CALL_OBJECT}",
        also=("<|message_sep|>\n\nfunction call<|role_sep|>",),
    ),
    HERMES,
    CallFormat(
        "llama3", ("tools",), '{"name": $JSON, "parameters": $ARGUMENTS}', also=("<|python_tag|>",), alone=("",)
    ),
)
"""All formats; if a template contains the signs of several, the first is its format."""


def format_of(template: str | None, *, shows_tools: bool = True) -> CallFormat:
    """Return the format of a chat template; for a template that shows no tools, Hermes' format with instructions."""
    source = template or ""
    known = (one for one in FORMATS if all(sign in source for sign in one.signs))
    return next(known, HERMES) if shows_tools else HERMES


_CALL_LITERALS = tuple(
    text
    for row in FORMATS
    for text in (row.call, row.calls, *row.also, *(row.argument.texts if row.argument is not None else ()))
)
TRIGGERS = tuple(dict.fromkeys(form.trigger for form in FORMATS if form.trigger))
"""Texts that begin calls."""


def is_call_mark(text: str) -> bool:
    """Return whether the text of a control token belongs to calls; without tools these tokens are not shown."""
    return len(text) > 1 and any(text in literal for literal in _CALL_LITERALS)
