"""An SVG picture on an HTML page that needs nothing else: no network, no other file."""

from jinja2 import Environment, PackageLoader, StrictUndefined


def page(title: str, picture: bytes) -> str:
    """Return the page: the picture to be moved, enlarged and pointed at."""
    templates = Environment(
        loader=PackageLoader(__name__.rpartition(".")[0], ""),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    svg = picture.decode().partition("?>")[2].strip()  # HTML has no XML declaration
    return templates.get_template("page.html.j2").render(title=title, picture=svg)
