"""`tandem run --file picture.png`: the picture stands before the prompt, also where a running server answers."""

import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from app.cli import main
from app.cli.run import with_files, with_pictures
from app.cli.running_server import RunningServer, ServerAnswer
from app.conversations.message import Role
from app.conversations.tree import as_message
from app.core.errors import AppError
from app.core.fixes import quoted
from app.core.pictures import MARK, PictureLimits, read_picture
from app.server.chat import read_chat
from app.server.fields import Fields
from app.settings.layers import DEFAULTS
from app.worker.request import AnswerRequest
from tests.core.test_pictures import gif, png
from tests.llama.tiny_model import write_model


def test_pictures_stand_before_the_prompt_and_its_texts(tmp_path: Path) -> None:
    for name, data in (("a.png", png(4, 3)), ("b.gif", gif(40, 30)), ("c.txt", b"text")):
        (tmp_path / name).write_bytes(data)
    files = [tmp_path / name for name in ("a.png", "c.txt", "b.gif")]
    text, pictures = with_files("What?", files, PictureLimits(), takes_stdin=False)
    request = with_pictures(AnswerRequest.of(DEFAULTS, [as_message(Role.USER, text)]), pictures)
    (message,) = request.messages
    assert message.content == f"{MARK}{MARK}{tmp_path / 'c.txt'}:\n```txt\ntext\n```\n\nWhat?"
    assert [each.data for each in request.pictures] == [png(4, 3), gif(40, 30)]
    assert [each.name for each in message.pictures] == [str(tmp_path / "a.png"), str(tmp_path / "b.gif")]


@pytest.mark.usefixtures("folders")
def test_what_a_decoder_prints_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def damaged(*_: object, **__: object) -> None:
        os.write(2, b"Fax4Decode: Bad code word")
        raise AppError("It is damaged.")

    monkeypatch.setattr("app.cli.run.with_files", damaged)
    assert main(["run", "--target", str(write_model(tmp_path / "m.gguf")), "Hi"]) == 1
    assert capfd.readouterr().err == "tandem: It is damaged.\n"


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize(
    ("arguments", "notice"),
    [
        (['What is @"a b.png"?'], f'"@a b.png" is sent as text; --file {quoted("a b.png")} includes the file.\n'),
        (["What is @c.png?"], '"@c.png" is sent as text; --file c.png includes the file.\n'),
        (["--file", "c.png", "What is @c.png?"], ""),
        (["What is @property in @d.png?"], ""),
    ],
)
def test_a_reference_to_a_file_is_reported_as_text(
    arguments: list[str],
    notice: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a b.png", "c.png"):
        (tmp_path / name).write_bytes(png(4, 3))
    monkeypatch.setattr("app.cli.run.with_files", Mock(side_effect=AppError("It is damaged.")))
    assert main(["run", "--target", str(write_model(tmp_path / "m.gguf")), *arguments]) == 1
    assert capsys.readouterr().err == f"{notice}tandem: It is damaged.\n"


def test_a_running_server_gets_the_pictures_in_their_places() -> None:
    picture = {"type": "image_url", "image_url": {"url": read_picture(png(4, 3)).data_url}}
    messages = [{"role": "user", "content": [picture]}, {"role": "user", "content": "What?"}]
    asked = read_chat(Fields({"messages": messages}), DEFAULTS)
    sent = ServerAnswer(RunningServer("http://x/v1", "t", ""), DEFAULTS, as_json=False)._body(asked)
    assert sent["messages"] == messages
