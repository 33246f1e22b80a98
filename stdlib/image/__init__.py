"""Decoding, resizing, cutting and normalising images.

An image is [h, w, c], or [h, w] with one channel, of u8 (0 to 255) or f32. Points are (x, y) in
pixels. Colours are red, green, blue in this order unless an op is told otherwise.
Ops that make new pixels do it with OpenCV and give exactly its results.
"""
