"""Sound: decoding, resampling, frames, spectra and mel bands.

Audio is f32[n], one channel with samples from -1 to 1, or f32[n, c] with several. Rates are in
samples a second.
"""
