"""What a pair without a projector does with pictures."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from app.conversations.message import Message, Role
from app.core.errors import UsageError
from app.core.pictures import MARK, read_picture
from app.worker.request import AnswerRequest, LoadedPair, readable_by
from tests.core.test_pictures import png
from tests.fakes import FakeModel, mixing
from tests.pairs import FakePair

CAT = read_picture(png(4, 3), "cat.png")
SHOWN, PLAIN = Message(Role.USER, f"What is {MARK}?", pictures=(CAT.picture,)), Message(Role.USER, "More?")


def asked(*messages: Message) -> AnswerRequest:
    return AnswerRequest(messages, pictures=(CAT,))


def test_a_projector_reads_pictures_and_a_text_model_reads_their_names() -> None:
    pair = FakePair(FakeModel(mixing(5)))
    request = asked(SHOWN, PLAIN)
    read = readable_by(cast(LoadedPair, pair), request)
    assert ([each.content for each in read.messages], read.pictures) == (["What is [picture cat.png]?", "More?"], ())
    with pytest.raises(UsageError, match="cannot read pictures here: it is loaded without a projector"):
        readable_by(cast(LoadedPair, pair), asked(SHOWN))
    pair.info = replace(pair.info, projector="mmproj-F16.gguf")
    assert readable_by(cast(LoadedPair, pair), request) == request
