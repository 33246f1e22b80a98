"""Graphs and plans as pictures.

In order of control flow: `graph_scene` and `plan_scene` turn what is to be drawn, step by step with
`sketch`, into a `scene` of frames, cards and wires; `svg` lays it out, in
`columns` where it is long, and writes it; `page` puts it on an HTML page that needs nothing else.
"""
