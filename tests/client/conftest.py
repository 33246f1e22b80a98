"""A server of the toy pipelines, for what does not depend on the carrier."""

from tests.runtime.wire.conftest import one_server as one_server
