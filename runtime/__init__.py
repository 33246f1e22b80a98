"""headrace.runtime"""

if __name__ == "runtime":
    raise ImportError("import headrace.runtime: this folder is part of the package headrace")
