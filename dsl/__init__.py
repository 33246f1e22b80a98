"""The language: from text to a tree, and what is said of mistakes.

In order of control flow: `source` is text with places in it and `read` gets it from files; `lexer`
cuts it into items of tokens (`token`, `literals`); `parse` reads each by `grammar.lark` with
`build_code` (`sends`) and `build_items` into the tree of `ast`, no deeper than `depth`
(`recursion`) lets it. `lexical_errors` and `syntax_errors` (`situation`, `syntax_rules`) say what
is wrong, as values of `diagnostic` with pages in `errors/` (`pages`) that `render` shows (`cells`);
`nearest` finds what was meant. `format` prints a tree in its canonical form (`format_code`,
`format_rows`, `layout`). `types` and `dims` (on `linear`) are what the checker, the compiler and
the runtime speak of.
"""

if __name__ == "dsl":
    raise ImportError("import headrace.dsl: this folder is part of the package headrace")
