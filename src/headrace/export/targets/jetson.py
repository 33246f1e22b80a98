"""What goes to a Jetson board: plan, pinned requirements, Containerfile, unit of systemd, notes."""

from ..jetson.bundle import make
from ..jetson.release import RELEASES
from ..target import Option, Target

TARGET = Target(
    "jetson",
    "what goes to a Jetson board",
    make,
    (Option("jetpack", "6.2", "what runs on the board", tuple(RELEASES)),),
)
