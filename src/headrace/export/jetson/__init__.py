"""A plan as what goes to a Jetson board.

In order of control flow: `release` says what a JetPack has, `bundle` writes the files.
"""
