"""Repositories of Triton models, as a tritonserver reads them.

In order of control flow: `repository` reads folders; `config_text` makes a tree with places of a
configuration's text, `config_fields` holds it to the message, `config` has both and the message.
"""
