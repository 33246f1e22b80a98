"""Draw the pages that ship with the example: `python render.py` writes them to pages/.

Needs Pillow and the DejaVu fonts (Debian: fonts-dejavu). The PNG files are committed, so nothing
needs this script to run; it says what is on them.
"""

from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

FONTS = Path("/usr/share/fonts/truetype/dejavu")
PAGES = Path(__file__).parent / "pages"

SIGN = (
    "Riverside Station",
    "Platform 2 for all trains north",
    "First train 05:42, last train 23:18",
    "Tickets from the machine at gate B12",
    "Day return EUR 19.90",
    "Children under 6 travel free",
    "Mind the gap between train and platform",
    "NO EXIT AFTER 22:00",
    "Lost property: room 104, 9 to 17 h",
    "Bicycles only in the last carriage",
    "Emergency phone 0800 555 0199",
    "Thank you for travelling with us",
)
SIGN_TURNED = frozenset({4, 7})

WORDS = (
    *("river", "gauge", "pump", "valve", "north", "station", "inlet", "outlet"),
    *("level", "metre", "flow", "rate", "closed", "open", "stairs", "platform"),
    *("train", "gate", "total", "price", "water", "weir", "sluice", "head"),
    *("bridge", "canal", "basin", "filter", "sensor", "alarm", "manual", "signal"),
    *("north 4", "east 12", "No. 17", "3.52 m", "08:45", "EUR 19", "B 112", "2024"),
)
WORDS_TURNED = frozenset({3, 9, 16, 22, 29, 37})


def strip(text: str, size: int, bold: bool, turned: bool, ink: str, paper: str) -> Image.Image:
    """Return one line of text on a strip of paper, upside down if `turned`."""
    font = ImageFont.truetype(str(FONTS / f"DejaVuSans{'-Bold' if bold else ''}.ttf"), size)
    box = font.getbbox(text)
    image = Image.new("RGB", (int(box[2]) + 12, size + size // 3), paper)
    ImageDraw.Draw(image).text((6, 0), text, font=font, fill=ink)
    return image.rotate(180) if turned else image


def sign() -> Image.Image:
    """A dozen lines, two of them upside down."""
    ink, paper = "#f4f1e6", "#1d3b53"
    page = Image.new("RGB", (760, 720), paper)
    for row, text in enumerate(SIGN):
        bold = row == 0 or text.isupper()
        line = strip(text, 34 if bold else 28, bold, row in SIGN_TURNED, ink, paper)
        page.paste(line, (36, 24 + row * 56))
    return page


def words(texts: Sequence[str] = WORDS, turned: frozenset[int] = WORDS_TURNED) -> Image.Image:
    """Words in five columns, those in `turned` upside down."""
    page = Image.new("RGB", (1080, 26 + 84 * -(-len(texts) // 5)), "white")
    for place, text in enumerate(texts):
        row, column = divmod(place, 5)
        line = strip(text, 32, bold=True, turned=place in turned, ink="black", paper="white")
        # Columns are not quite straight, so that the reading order has something to decide.
        page.paste(line, (24 + column * 212, 22 + row * 84 + (place * 5) % 9))
    return page


def blank() -> Image.Image:
    """Nothing at all."""
    return Image.new("RGB", (640, 480), "white")


def tiny() -> Image.Image:
    """20 pixels high and 135 wide: it becomes a detector input of 736 x 4416."""
    page = Image.new("RGB", (135, 20), "white")
    page.paste(strip("EXIT 17 B", 15, False, False, "black", "white"), (4, 0))
    return page


def main() -> None:
    PAGES.mkdir(exist_ok=True)
    drawn = {"sign": sign(), "words40": words(), "blank": blank(), "tiny": tiny()}
    for name, page in drawn.items():
        colours = page.convert("RGB").quantize(64, dither=Image.Dither.NONE).convert("RGB")
        colours.save(PAGES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
