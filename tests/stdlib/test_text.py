"""Strings and greedy decoding."""

import sys

import numpy as np
import pytest

from headrace.dsl.types import DType
from headrace.stdlib.text.tokenize import small_tokenizer
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


def test_a_text_becomes_tokens_with_its_ends_marked() -> None:
    ids, mask, types = call("text.tokenize", "A RED door", small_tokenizer())
    assert ids.tolist() == [1, 3, 4, 0, 2]
    assert (mask.tolist(), types.tolist()) == ([1] * 5, [0] * 5)
    assert call("text.detokenize", ids, small_tokenizer()) == "a red [UNK]"


def test_two_texts_are_told_apart_by_their_types() -> None:
    ids, _, types = call("text.tokenize", "exit", small_tokenizer(), "sign")
    assert (ids.tolist(), types.tolist()) == ([1, 5, 2, 6, 2], [0, 0, 0, 1, 1])


def test_tokens_are_cut_at_the_most_allowed() -> None:
    ids, _, _ = call("text.tokenize", "a red exit sign", small_tokenizer(), max_length=4)
    assert ids.tolist() == [1, 3, 4, 2]
    assert call("text.tokenize", "a red exit sign", small_tokenizer())[0].size == 6


def test_what_is_no_tokenizer_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"no tokenizer\.json"):
        call("text.tokenize", "a", b"{}")


def test_tokens_without_their_library_name_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r"pip install headrace\[text\]"):
        call("text.tokenize", "a", b"another file")


def test_patterns_are_checked_when_compiling() -> None:
    string = tensor(DType.STRING)
    assert refusal("text.matches", string, "(").startswith("pattern: a regular expression: missing")
    assert refusal("text.find_all", string, "(a)b", 2) == (
        "group: 0 to 1, the groups of the pattern, not 2"
    )
    assert refusal("text.substitute", string, "a|b(", "x").startswith("pattern")
    assert refusal("text.substitute", string, "(a)|b", r"\2").startswith("new: a text for")


def test_patterns_find_and_replace() -> None:
    assert call("text.find_all", "12 a 7", r"(\d)\d?", 1).tolist() == ["1", "7"]
    assert call("text.substitute", "12 a 7", r"(\d)", r"<\1>") == "<1><2> a <7>"
    assert call("text.matches", np.array(["abc", "xyz"], object), "^a").tolist() == [True, False]


def test_a_text_too_long_for_a_pattern_is_an_error() -> None:
    with pytest.raises(ValueError, match="10001 characters, more than the 10000 allowed"):
        call("text.matches", "a" * 10_001, "b")


def test_numbers_are_read_and_written() -> None:
    assert call("text.to_number", " -1.5e3 ") == np.float32(-1500)
    assert call("text.format", np.float32(0.1)) == "0.1"
    assert call("text.format", np.array([1.005, 2]), 1).tolist() == ["1.0", "2.0"]
    assert call("text.format", np.array([2**60])).tolist() == [str(2**60)]


@pytest.mark.parametrize(
    ("text", "dtype", "said"),
    [
        ("1,5", DType.F32, "'1,5' is no number"),
        ("1.5", DType.I64, "'1.5' is no integer"),
        (str(2**31), DType.I32, "2147483648 does not fit i32"),
        ("9" * 50, DType.I32, "9999 does not fit i32"),
    ],
)
def test_what_is_no_number_is_an_error(text: str, dtype: DType, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call("text.to_number", text, dtype)


def test_bytes_that_are_no_text_are_an_error_unless_replaced() -> None:
    with pytest.raises(ValueError, match="no UTF-8: byte 3"):
        call("text.decode", b"caf\xc3")
    assert call("text.decode", b"caf\xc3", "replace") == "caf\ufffd"
    assert call("text.encode", "caf\xe9") == b"caf\xc3\xa9"


def test_characters_have_one_form() -> None:
    assert call("text.normalize", "e\u0301") == "\xe9"
    assert call("text.normalize", "\ufb01", "NFKC") == "fi"
    assert call("text.lines", "a\r\nb\n").tolist() == ["a", "b"]
    assert call("text.slice", "Straße", -3) == "aße"
