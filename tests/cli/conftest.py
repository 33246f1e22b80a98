"""What the tests of commands have."""

from tests.cli.commands import folder as folder
from tests.cli.commands import run as run
