# SPDX-License-Identifier: Apache-2.0
"""Shows objects of random bytes: gdb sources this while it is in look() of objects.cpp.

Prints `garbage: COUNT objects`. A printer that raises an exception ends the script before that.
"""
import random

import gdb

shown = 0
rng = random.Random(1)
objects = gdb.parse_and_eval("objects")
for field in objects.type.strip_typedefs().fields():
    kind = field.type.strip_typedefs().target()
    for attempt in range(60):
        if attempt % 3 == 0:
            raw = bytes(rng.randrange(256) for _ in range(kind.sizeof))
        else:  # a real object of which some bytes are wrong
            real = int(objects[field.name])
            raw = bytearray(gdb.selected_inferior().read_memory(real, kind.sizeof).tobytes())
            for _ in range(attempt % 3):
                raw[rng.randrange(len(raw))] = rng.randrange(256)
        visualizer = gdb.default_visualizer(gdb.Value(bytes(raw), kind))
        text = visualizer.to_string()
        assert isinstance(text, str) and text and "\n" not in text, (field.name, text)
        for name, part in visualizer.children():
            if not isinstance(part, gdb.Value):
                assert "\n" not in str(part), (field.name, name, part)
        shown += 1
print(f"garbage: {shown} objects")
