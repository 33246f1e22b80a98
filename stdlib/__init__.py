"""headrace.stdlib"""

if __name__ == "stdlib":
    raise ImportError("import headrace.stdlib: this folder is part of the package headrace")
