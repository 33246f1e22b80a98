"""The version of headrace, in one place."""

VERSION = "0.1.0"
