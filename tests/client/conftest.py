"""What the tests of the wire have, for those of a client."""

from tests.runtime.wire.conftest import gates as gates
from tests.runtime.wire.conftest import one_server as one_server
