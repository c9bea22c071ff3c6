# SPDX-License-Identifier: Apache-2.0
"""Makes gdb show msstream's objects as text: `source msstream_gdb.py`, once or in ~/.gdbinit.

gdb runs all sourced scripts in one namespace, so the printers are in a module of their own.
"""
import importlib
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
try:
    import msstream_printers
    import msstream_values

    importlib.reload(msstream_values)
    importlib.reload(msstream_printers).register()
finally:
    del sys.path[0]
