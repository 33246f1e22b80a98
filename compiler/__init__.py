"""headrace.compiler"""

if __name__ == "compiler":
    raise ImportError("import headrace.compiler: this folder is part of the package headrace")
