"""headrace.dsl"""

if __name__ == "dsl":
    raise ImportError("import headrace.dsl: this folder is part of the package headrace")
