"""What is said of a value whose type is not the one that is asked for."""

from ...dsl import ast
from ...dsl.diagnostic import Label
from ...dsl.dims import Dims
from ...dsl.types import Dim, DType, OptionalType, TensorType, Type
from .agree import Clash, compare_form
from .body import Body
from .repair import find_repair, fits

CODES = {
    Clash.DTYPE: "HR201",
    Clash.RANK: "HR202",
    Clash.DIMS: "HR204",
    Clash.ABSENT: "HR223",
    Clash.KIND: "HR203",
    Clash.SEVERAL: "HR203",
}
SHAPES = (Clash.RANK, Clash.DIMS, Clash.SEVERAL)
MOST_HELP = 90  # characters of code in a help line


def report_mismatch(
    body: Body,
    expr: ast.Expr,
    found: Type,
    wanted: Type,
    subject: str,
    *,
    code: str | None = None,
    call: ast.Call | None = None,
    secondary: tuple[Label, ...] = (),
    notes: tuple[str, ...] = (),
    in_batch: tuple[str, ...] = (),
) -> None:
    """Report that `expr` has type `found` where `subject` (`` `read` wants f32[3, 48, W] ``) is so.

    `wanted` is the type as its signature writes it. `code` replaces that of the kind of clash.
    With `call` a chain of ops that would mend the argument is looked for. `in_batch` says how
    both look in a batch, which is worth saying where axes or sizes differ.
    """
    found = body.resolve(found)
    clash = _clash(found, wanted, body.dims)
    body.problems.error(
        code or CODES[clash],
        f"{subject}, but {named(expr)} is {found}",
        expr.span,
        f"expected {wanted}, found {found}",
        secondary=made_here(body, expr) + secondary,
        notes=notes + in_batch * (clash in SHAPES),
        help=_help(body, expr, found, wanted, clash, call),
    )


def named(expr: ast.Expr) -> str:
    """Name an expression in a sentence."""
    text = expr.span.text
    short = ast.Name | ast.Attribute | ast.Number | ast.String | ast.Bool
    simple = isinstance(expr, short) and len(text) <= 40 and "\n" not in text
    return f"`{text}`" if simple else "this"


def made_here(body: Body, expr: ast.Expr) -> tuple[Label, ...]:
    """Point to where the value of a name comes from."""
    while isinstance(expr, ast.Attribute):
        expr = expr.value
    local = body.scope.local(expr.text) if isinstance(expr, ast.Name) else None
    if local is None or not isinstance(expr, ast.Name):
        return ()
    return (Label(local.span, f"`{expr.text}` is {'given' if local.parameter else 'made'} here"),)


def conflict(body: Body, found: Dim, wanted: Dim, written: Dim, axis: int) -> str:
    """Say which two sizes differ; `written` is the wanted one as its signature writes it."""
    found, wanted = body.dims.resolve(found), body.dims.resolve(wanted)
    shown = f"`{written}` is {wanted}" if str(written) != str(wanted) else f"{wanted} is wanted"
    return f"dimension {axis} is {found} where {shown}"


def absent_help(type: OptionalType) -> str:
    """Say what can be done with what may be absent."""
    return f"give the input a default where it is declared, or hand it to what takes {type}"


def _clash(found: Type, wanted: Type, dims: Dims) -> Clash:
    """Return why the types differ, telling a wrong dtype alone from one among other things."""
    form = compare_form(found, wanted)
    if not isinstance(form, Clash):
        return Clash.DIMS
    bare = wanted.item if isinstance(wanted, OptionalType) else wanted
    if form is not Clash.DTYPE or not isinstance(found, TensorType):
        return form
    assert isinstance(bare, TensorType)
    other = TensorType(bare.dtype, found.dims)
    return Clash.DTYPE if fits(other, bare, dims) else Clash.SEVERAL


def _help(
    body: Body, expr: ast.Expr, found: Type, wanted: Type, clash: Clash, call: ast.Call | None
) -> str | None:
    if clash is Clash.ABSENT and isinstance(found, OptionalType):
        return absent_help(found)
    if not isinstance(wanted, TensorType) or not isinstance(found, TensorType):
        return None
    numbers = found.dtype.is_number or found.dtype is DType.BOOL
    if clash is Clash.DTYPE and numbers and (wanted.dtype.is_number or wanted.dtype is DType.BOOL):
        return _code("convert it", f"cast({{}}, {wanted.dtype.value})", expr, call)
    chain = find_repair(body, found, wanted)
    return None if chain is None else _code(chain.advice, chain.code, expr, call)


def _code(advice: str, code: str, expr: ast.Expr, call: ast.Call | None) -> str | None:
    """Write help as code that takes the place of the call, or of the argument alone."""
    mended = code.format(expr.span.text)
    if call is not None:
        start, text = call.span.start, call.span.text
        mended = text[: expr.span.start - start] + mended + text[expr.span.end - start :]
    short = "\n" not in mended and len(mended) <= MOST_HELP
    return f"{advice}: `{mended}`" if short else None
