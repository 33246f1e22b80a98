"""Strings and greedy decoding."""

import numpy as np
import pytest

from headrace.dsl.types import DType
from tests.stdlib.calls import call, refusal, tensor

CHARSET = np.array(["", "a", "b", " "], object)


def test_strings_are_changed_each_on_its_own() -> None:
    words = np.array([[" Ab ", "ß"], ["", "C"]], object)
    assert call("text.lower", words).tolist() == [[" ab ", "ß"], ["", "c"]]
    assert call("text.strip", " Ab ") == "Ab"


def test_splitting_at_white_space_leaves_out_empty_parts() -> None:
    assert call("text.split", " a  b ").tolist() == ["a", "b"]
    assert call("text.split", "a,,b", ",").tolist() == ["a", "", "b"]
    assert "a text that is not empty" in refusal("text.split", tensor(DType.STRING), "")


def test_nothing_joins_to_an_empty_string() -> None:
    assert call("text.join", np.empty(0, object), ", ") == ""


def test_searching_gives_bools() -> None:
    found = call("text.starts_with", np.array(["table", "stable"], object), "ta")
    assert (found.dtype, found.tolist()) == (np.bool_, [True, False])


def test_repeats_are_read_once_and_again_after_a_blank() -> None:
    ids = np.array([1, 1, 0, 1, 2, 3, 3, 0])
    p = np.array([0.9, 0.1, 0.1, 0.8, 0.7, 0.6, 0.1, 0.1], np.float32)
    text, score = call("text.ctc_collapse", ids, p, CHARSET)
    assert text == "aab "
    assert score.dtype == np.float32
    assert score == pytest.approx(0.75)


def test_decoding_in_one_or_two_steps_is_the_same() -> None:
    p = np.random.default_rng(1).random((30, 4)).astype(np.float32)
    two = call("text.ctc_collapse", call("argmax", p), call("max", p, -1), CHARSET)
    assert call("text.ctc_greedy", p, CHARSET) == two


def test_only_blanks_read_as_nothing() -> None:
    assert call("text.ctc_greedy", np.eye(4, dtype=np.float32)[[0, 0]], CHARSET) == ("", 0)


def test_a_charset_of_another_size_is_refused() -> None:
    p, charset = tensor(DType.F32, 40, 5), tensor(DType.STRING, 4)
    assert refusal("text.ctc_greedy", p, charset) == (
        "charset: as many texts as `p` has classes: 5 and 4 differ"
    )


def test_a_class_without_a_text_is_an_error() -> None:
    with pytest.raises(ValueError, match="has 4 texts, but 7 was read"):
        call("text.ctc_collapse", np.array([7]), np.ones(1, np.float32), CHARSET)
