"""Files to sources."""

from pathlib import Path

from .diagnostic import CompileError, Diagnostic, Label
from .source import Source, Span


def read_source(path: Path, name: str | None = None) -> Source:
    """Read a file; raise OSError when it cannot be read, CompileError when it is not UTF-8."""
    content = path.read_bytes()
    try:
        return Source(name or str(path), content.decode("utf-8"), path.absolute())
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8")
        source = Source(name or str(path), before, path.absolute())
        place = Span(source, len(before), len(before))
        raise CompileError(
            [
                Diagnostic(
                    "HR023",
                    "this file is not UTF-8 text",
                    Label(place, f"byte {error.start} is 0x{content[error.start]:02x}"),
                    help="save the file as UTF-8",
                )
            ]
        ) from None
