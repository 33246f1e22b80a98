"""Parts of the simulated device (`../sim.py`).

memory.py (a second address space) · clocks.py (who may touch which bytes when) · delay.py (work
that is done later) · faults.py (what goes wrong on purpose)
"""
