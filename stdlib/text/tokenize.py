"""Texts to the tokens of a language model, and back."""

import json
from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..constants import constant_bool, constant_integer
from ..op import Argument, Array, Item, Literal, Op, OpTypeError, Param, Sample
from ..rules import of_dtype, ranked, scalar, scalar_text, tensor
from ..tokenizer import tokenizer as made
from ..values import integers

TOKENIZER = Param("tokenizer", "The bytes of a tokenizer.json.")


def is_one(argument: Argument, dims: Dims) -> None:
    found = of_dtype(argument, "tokenizer", dims, DType.BYTES)
    if found.dims:
        raise OpTypeError("tokenizer", f"the bytes of one file, not {found}")


def tokenize_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    text, tokenizer, pair, max_length, special = arguments
    scalar_text(text, "text", dims)
    is_one(tokenizer, dims)
    if not (pair.known and pair.literal is None):
        scalar_text(pair, "pair", dims)
    if max_length.literal is not None and constant_integer(max_length, "max_length") < 1:
        raise OpTypeError("max_length", f"at least 1, not {max_length.literal!r}")
    constant_bool(special, "special")
    tokens = TensorType(DType.I64, (dims.fresh("l"),))
    return tokens, tokens, tokens


def tokenize(
    text: str, tokenizer: bytes, pair: "str | None", max_length: Literal, special: bool
) -> tuple[Array, Array, Array]:
    most = None if max_length is None else integers(max_length)[0]
    found = made(tokenizer, most).encode(text, pair, add_special_tokens=special)
    columns = (found.ids, found.attention_mask, found.type_ids)
    ids, mask, types = (np.array(column, np.int64) for column in columns)
    return ids, mask, types


def detokenize_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    ids = ranked(tensor(arguments[0], "ids", dims), "ids", 1, form="integers [L]")
    if not ids.dtype.is_integer:
        raise OpTypeError("ids", f"integers [L], not {ids}")
    is_one(arguments[1], dims)
    constant_bool(arguments[2], "special")
    return scalar(DType.STRING)


def detokenize(ids: Item, tokenizer: bytes, special: bool) -> str:
    library = made(tokenizer, None)
    listed = integers(ids)
    if any(not 0 <= one < 2**32 for one in listed):
        wrong = next(one for one in listed if not 0 <= one < 2**32)
        raise ValueError(f"{wrong} is no token")
    return library.decode(list(listed), skip_special_tokens=not special)


def small_tokenizer() -> bytes:
    """Return a tokenizer.json of a few words."""
    words = ["[UNK]", "[CLS]", "[SEP]", "a", "red", "exit", "sign"]
    kinds = [("[CLS]", 1), ("[SEP]", 2)]
    sequences = [{"Sequence": {"id": name, "type_id": kind}} for kind, name in enumerate("AB")]
    first, last = [{"SpecialToken": {"id": name, "type_id": 0}} for name, _ in kinds]
    end = {"SpecialToken": {"id": "[SEP]", "type_id": 1}}
    special = {name: {"id": name, "ids": [place], "tokens": [name]} for name, place in kinds}
    added = [
        {
            "id": place,
            "content": name,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for name, place in kinds
    ]
    content = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [first, sequences[0], last],
            "pair": [first, sequences[0], last, sequences[1], end],
            "special_tokens": special,
        },
        "model": {
            "type": "WordLevel",
            "vocab": {word: place for place, word in enumerate(words)},
            "unk_token": "[UNK]",
        },
    }
    return json.dumps(content).encode()


def tokenize_samples(_: np.random.Generator) -> Sequence[Sample]:
    file = small_tokenizer()
    return [
        ("A red EXIT sign", file),
        ("exit", file, "a door"),
        ("a red exit sign", file, None, 4),
        ("", file, None, None, False),
    ]


def detokenize_samples(_: np.random.Generator) -> Sequence[Sample]:
    file, ids = small_tokenizer(), np.array([1, 4, 5, 2])
    return [(ids, file), (ids, file, True), (ids[:0], file), (ids.astype(np.int32), file)]


OPS = (
    Op(
        name="text.tokenize",
        summary="Makes tokens of a text, or of two, as a tokenizer.json says. Its own settings "
        "for padding and length are not looked at: `pads` says how texts meet in a batch.",
        params=(
            Param("text", "A string."),
            TOKENIZER,
            Param("pair", "A second text, for models that compare two.", has_default=True),
            Param("max_length", "The most tokens, special ones included.", True, True),
            Param("special", "Add special tokens such as [CLS].", True, True, default=True),
        ),
        results=("ids", "mask", "types"),
        types=tokenize_types,
        reference=tokenize,
        example="ids, mask, types = text.tokenize(line, vocabulary, max_length = 256)",
        samples=tokenize_samples,
    ),
    Op(
        name="text.detokenize",
        summary="Makes a text of tokens; those that no token has the number of are left out.",
        params=(
            Param("ids", "Tokens [L]."),
            TOKENIZER,
            Param("special", "Keep special tokens such as [CLS].", True, True, default=False),
        ),
        results=("text",),
        types=detokenize_types,
        reference=detokenize,
        example="answer = text.detokenize(ids, vocabulary)",
        samples=detokenize_samples,
    ),
)
