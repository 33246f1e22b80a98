"""`headrace docs`: pages of ops on the command line."""

import pytest

from headrace.cli import main


def test_the_page_of_an_op_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "op", "image.center_crop"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("### `image.center_crop(image, height, width)`\n")
    assert "* in models: yes, bit for bit\n" in page
    assert "middle = image.center_crop(img, 224, 224)\n" in page


def test_an_op_of_core_is_known_with_and_without_its_family(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["docs", "op", "cast"]) == main(["docs", "op", "core.cast"]) == 0
    first, second = capsys.readouterr().out.split("### ")[1:]
    assert first.strip() == second.strip()


def test_the_ops_of_a_family_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "op", "nn"]) == 0
    assert "\nnn.one_hot(ids, depth, dtype = f32)\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("image.rezise", "did you mean `image.resize`?"),
        ("concatt", "did you mean `concat`?"),
        ("imag", "did you mean `image`?"),
        ("zoology.x", "`headrace docs op FAMILY` lists the ops of audio, core,"),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest(
    name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["docs", "op", name]) == 2
    assert said in capsys.readouterr().err
