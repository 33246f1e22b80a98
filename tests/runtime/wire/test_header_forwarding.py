"""Headers as parameters of a request, by a pattern that the operator gives."""

import re

from headrace.runtime.protocols.forwarding import with_headers
from headrace.runtime.request import Request


def test_headers_whose_whole_name_matches_are_parameters_and_go_before() -> None:
    request = Request("p", {}, parameters={"x-user": "forged", "other": 1})
    headers = {"x-user": "me", "x-user-agent": "a", "authorization": "secret"}
    found = with_headers(request, headers, re.compile("x-user|x-tenant"))
    assert found.parameters == {"x-user": "me", "other": 1}
    assert with_headers(request, headers, re.compile("nothing")) is request
