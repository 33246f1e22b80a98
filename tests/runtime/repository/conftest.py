"""What the tests of repositories have."""

from tests.runtime.repository.repositories import make as make
