# SPDX-License-Identifier: Apache-2.0
"""Pretty printers for gdb, which msstream_gdb.py loads.

The printers read memory alone: they call no function of the program, so they also work on a core
file. An object that is not initialised, or is garbage, is shown as `<not a ...: reason>`; a printer
throws nothing. Memory of a GPU is never read. docs/seeing.md shows examples.
"""

import functools
import struct

import gdb
import gdb.printing
import gdb.types
from msstream_values import (
    MAX_SHOWN,
    NotThat,
    Undescribed,
    atomic,
    count_of,
    elements,
    member,
    place,
    plural,
    shared,
    string,
    string_view,
    target,
    unique,
)

WHOLE_BYTES = 64 << 10  # tensors up to this size are shown in their shape
MAX_STREAMS = 4096  # of a program

# Name, bytes and struct format of each msstream::DType, in the order of the enumeration.
DTYPES = (
    ("float32", 4, "f"),
    ("float16", 2, "e"),
    ("bfloat16", 2, None),
    ("int32", 4, "i"),
    ("int64", 8, "q"),
    ("uint8", 1, "B"),
)
KIND_HOST = 0  # msstream::detail::StreamRefKind::host


# --- Shapes, tensors and memory -------------------------------------------------------------------


def extents_of(shape):
    rank = int(shape["rank_"])
    if rank > 4:
        raise NotThat(f"rank {rank}; expected 0 to 4")
    extents = [int(shape["extents_"]["_M_elems"][i]) for i in range(rank)]
    count = functools.reduce(lambda a, b: a * b, extents, 1)
    if any(extent < 0 for extent in extents) or count != int(shape["count_"]):
        raise NotThat(f"extents {extents} and {int(shape['count_'])} elements")
    return extents


def shape(value):
    return str(extents_of(value)), []


def half(value):
    bits = int(value["bits"])
    if "bfloat16" in str(value.type):
        return f"{struct.unpack('<f', struct.pack('<I', bits << 16))[0]:.4g}", []
    return f"{struct.unpack('<e', struct.pack('<H', bits))[0]:.5g}", []


def runtime_of(device):
    """Returns the name of a device's runtime, and whether the host may read its memory."""
    traits = member(shared(target(shared(device["context"]), "context")["runtime"]), "traits")
    return string_view(traits["name"]), int(traits["ref_kind"]) == KIND_HOST


def runtime_of_type(value):
    """As runtime_of(), by the template argument R of a Tensor<T, R>; ("", False) if unknown."""
    try:
        name = str(value.type.strip_typedefs().template_argument(1)).replace("msstream::", "")
    except (gdb.error, RuntimeError):
        return "", False
    return ("", False) if "AnyRuntime" in name else (name.lower(), "Cuda" not in name)


def runtime_of_tensor(value, block):
    try:
        return runtime_of(target(shared(block["device"].dereference()), "device"))
    except (gdb.error, NotThat, Undescribed):
        return runtime_of_type(value)


def values_at(address, dtype, extents):
    """Returns the elements in host memory as children, in their shape if they are few."""
    name, size, form = DTYPES[dtype]
    count = functools.reduce(lambda a, b: a * b, extents, 1)
    if count == 0:
        return []
    whole = count * size <= WHOLE_BYTES
    read = count if whole else MAX_SHOWN
    raw = gdb.selected_inferior().read_memory(address, read * size).tobytes()
    kind = {"int32": "int", "int64": "long", "uint8": "short"}.get(name, "float")
    if name == "float16":
        raw = struct.pack(f"<{read}f", *struct.unpack(f"<{read}{form}", raw))
    elif name == "bfloat16":
        raw = b"".join(b"\0\0" + raw[i : i + 2] for i in range(0, len(raw), 2))
    elif name == "uint8":
        raw = struct.pack(f"<{read}h", *raw)  # gdb would show bytes as characters
    numbers = gdb.lookup_type(kind)
    for extent in reversed(extents if whole else [read]):
        numbers = numbers.array(extent - 1)
    return [("values" if whole else f"first {read} values", gdb.Value(raw, numbers))]


def writes_in_flight(block):
    """Returns the last writes of a block that are not known to be complete, as a text."""
    texts = []
    device = target(shared(block["device"].dereference()), "device")
    slots = Slots(target(shared(device["context"]), "context"))
    for written in positions_of(block["record"]["log"]["writes_"]):
        stream, number = int(written["stream"]), int(written["number"])
        if stream >= slots.count:
            continue
        slot = slots.at(stream)
        if int(atomic(slot["completed"])) < number:
            texts.append(f"{string(slot['identity']['name'])} @ {number}")
    return listed(texts)


def tensor(value):
    typed = value.type.strip_typedefs().name.startswith("msstream::Tensor")
    any_tensor = value["any_"] if typed else value
    dtype, address = int(any_tensor["dtype_"]), int(any_tensor["data_"])
    if dtype >= len(DTYPES):
        raise NotThat(f"element type {dtype}; expected 0 to {len(DTYPES) - 1}")
    extents = extents_of(any_tensor["shape_"])
    pointer = any_tensor["block_"]["block_"]
    if int(pointer) == 0:
        return "<a tensor without memory: moved from>", []
    count = int(any_tensor["shape_"]["count_"])
    text = f"Tensor<{DTYPES[dtype][0]}> {extents}"
    notes, in_flight = [], ""
    try:
        block = target(pointer, "block")
        runtime, readable = runtime_of_tensor(value, block)
        gdb.selected_inferior().read_memory(int(pointer), 1)
        inside = int(block["data"]) <= address <= int(block["data"]) + int(block["bytes"])
        if not inside:
            raise NotThat(f"elements at {address:#x}, outside the block at {int(block['data']):#x}")
        if bool(atomic(block["immutable"])):
            notes.append("frozen")
        in_flight = writes_in_flight(block)
    except gdb.MemoryError as error:
        raise NotThat(str(error)) from error
    except (gdb.error, Undescribed):
        runtime, readable = runtime_of_type(value)
    text += f" on {runtime}" if runtime else ""
    text += f", {count * DTYPES[dtype][1]:,} bytes at {address:#x}"
    if in_flight:
        notes.append(f"written by {in_flight}, not known to be complete")
    text += "".join(f", {note}" for note in notes)
    return text, values_at(address, dtype, extents) if readable else []


def pinned_array(value):
    count, size = int(value["count_"]), int(value["element_bytes_"])
    if size not in (1, 2, 4, 8) or count >= 1 << 48:
        raise NotThat(f"{count} elements of {size} bytes")
    return f"PinnedArray of {plural(count, 'element')}, {count * size:,} bytes at {int(value['data_']):#x}", []


def pinned_face(value):
    text, _ = pinned_array(value["any_"])
    element = value.type.strip_typedefs().template_argument(0)
    first = gdb.Value(int(value["any_"]["data_"])).cast(element.pointer())
    count = int(value["any_"]["count_"])
    return text, [(f"[{i}]", first[i]) for i in range(min(count, MAX_SHOWN))]


# --- The order of operations ----------------------------------------------------------------------


def position(value):
    number = int(value["number"])
    return f"stream {int(value['stream'])} @ {number}" if number else "before everything", []


def positions_of(value):
    """Returns the elements of a PositionSet, which is an InlineVector of four."""
    held = value["positions_"]
    size = int(held["size_"])
    if size > MAX_STREAMS:
        raise NotThat(f"{size} positions")
    if size <= 4:
        return [held["inline_"]["_M_elems"][i] for i in range(size)]
    return elements(held["spilled_"], MAX_STREAMS)


def listed(texts):
    """Returns the texts in a line, the first MAX_SHOWN of them."""
    more = len(texts) - MAX_SHOWN
    return ", ".join(texts[:MAX_SHOWN]) + (f", and {more} more" if more > 0 else "")


def position_set(value):
    return "{" + listed([position(one)[0] for one in positions_of(value)]) + "}", []


def vector_clock(value):
    if count_of(value["newest_"]) > MAX_STREAMS:
        raise NotThat(f"{count_of(value['newest_'])} streams")
    newest = [int(number) for number in elements(value["newest_"], MAX_STREAMS)]
    return f"clock {{{listed([f'stream {i} @ {n}' for i, n in enumerate(newest) if n])}}}", []


def access_log(value):
    writes, reads = position_set(value["writes_"])[0], position_set(value["reads_"])[0]
    return f"last written by {writes}, read since by {reads}", []


def recorded_event(value):
    return f"event of {position(value['position'])[0]}", [("clock", value["clock"])]


def event(value):
    return recorded_event(target(shared(value["recorded_"]), "event"))


def slot_text(slot):
    counts = [int(atomic(slot[name])) for name in ("reserved", "launched", "completed")]
    if not counts[0] >= counts[1]:
        raise NotThat(f"{counts[0]} operations reserved and {counts[1]} launched")
    name = string(slot["identity"]["name"]) or "a stream of no group"
    text = f"{name}: stream {int(slot['index'])}, {counts[0]:,} reserved, {counts[1]:,} launched"
    text += f", {counts[2]:,} known to be complete"
    if int(atomic(slot["capture"])):
        text += ", captured"
    failed = int(atomic(slot["first_failed"]))
    return text + (f", failed at {failed}" if failed != (1 << 64) - 1 else "")


def slot(value):
    return slot_text(value), [("clock", value["clock"])]


class Slots:
    """The slots of all streams of a device."""

    def __init__(self, context):
        tracker = target(shared(context["tracker"]), "dependency tracker")
        self.array = tracker["slots_"]["_M_elems"]
        self.count = int(atomic(tracker["slot_count_"]))
        if self.count > self.array.type.strip_typedefs().range()[1] + 1:
            raise NotThat(f"{self.count} streams")

    def at(self, index):
        return target(unique(self.array[index]), "stream")


def stream(value):
    if int(value["slot_"]) == 0:
        return "a closed stream", []
    return slot(target(value["slot_"], "stream"))


def group(value):
    name = string(value["name_"])
    index = int(value["index_"])
    if not -1 <= index < 256:
        raise NotThat(f"the number {index}; expected -1 to 255")
    kinds = [("compute", value["compute_"])]
    for kind in ("h2d", "d2h"):
        pointer = unique(value[kind + "_"])
        if int(pointer):
            kinds.append((kind, pointer.dereference()))
    return f"StreamGroup {name}", kinds


def pool(value):
    groups = value["groups_"]
    return f"StreamPool of {plural(count_of(groups), 'group')}", [
        (f"[{i}]", target(shared(one), "group")) for i, one in enumerate(elements(groups))
    ]


def device(value):
    runtime, _ = runtime_of(value)
    slots = Slots(target(shared(value["context"]), "context"))
    total = sum(int(atomic(slots.at(i)["reserved"])) for i in range(slots.count))
    text = f"Device of {runtime}, {plural(total, 'operation')} on {plural(slots.count, 'stream')}"
    shown = range(min(slots.count, MAX_SHOWN))
    if slots.count > MAX_SHOWN:
        text += f", the first {MAX_SHOWN} shown"
    return text, [(f"[{i}]", slot_text(slots.at(i))) for i in shown]


# --- Guards, tapes and checkpoints ----------------------------------------------------------------


def scope(value):
    text = "StreamScope of " + string(target(shared(value["group_"]), "group")["name_"])
    try:
        entry = gdb.lookup_type(
            "msstream::detail::ThreadGuards<msstream::detail::OpenScope>::Entry"
        )
        opened = value["entry_"].cast(entry.pointer()).dereference()
        text += f", opened at {place(opened['opened_at_'])}"
        payload = opened["opened_"]["_M_payload"]["_M_payload"]["_M_value"]
        text += ", with its gradients" if bool(payload["options_"]["include_grad"]) else ""
    except gdb.error:
        pass  # the library's part of a scope has no debug information
    return text, []


def name_scope(value):
    text = "NameScope " + string(target(shared(value["path_"]), "path"))
    where = place(target(value["entry_"], "entry")["opened_at_"])
    return text + (f", opened at {where}" if where else ""), []


def tape(value):
    paused = "paused" if bool(value["paused_"]) else "recording"
    state = target(unique(value["state_"]), "state")
    nodes = state["nodes"]
    text = f"GradientTape, {paused}, {plural(count_of(nodes), 'operation')}"
    text += f", {plural(int(state['backward_count']), 'backward')} since clear()"
    recorded = []
    for i, node in enumerate(elements(nodes)):
        extents = extents_of(node["output"]["shape_"])
        recorded.append((f"[{i}]", f"{string(node['name'])} -> {extents}"))
    return text, recorded


def named_tensors(value):
    held = value["tensors_"]
    count = count_of(held)
    named = [(string(one["name"]), one["tensor"]) for one in elements(held)]
    total = sum(
        int(one["shape_"]["count_"]) * DTYPES[int(one["dtype_"])][1]
        for _, one in named
        if int(one["dtype_"]) < len(DTYPES)
    )
    size = f", {total:,} bytes" if count == len(named) else ""
    text = f"checkpoint::Tensors, {plural(count, 'tensor')}{size}"
    return text, [(name, tensor(one)[0]) for name, one in named]


# --- Registration ---------------------------------------------------------------------------------


def through(describe, *path):
    """Describes what a handle holds: members, and for a name in parentheses what it points to."""

    def described(value):
        for step in path:
            if step == "*":
                value = target(value, "object")
            elif step == "shared":
                value = target(shared(value), "object")
            elif step == "unique":
                value = target(unique(value), "object")
            else:
                value = value[step]
        return describe(value)

    return described


PRINTERS = {
    "float16": half,
    "bfloat16": half,
    "Shape": shape,
    "Tensor": tensor,
    "detail::AnyTensor": tensor,
    "PinnedArray": pinned_face,
    "detail::AnyPinnedArray": pinned_array,
    "order::Position": position,
    "order::PositionSet": position_set,
    "order::VectorClock": vector_clock,
    "order::AccessLog": access_log,
    "detail::AccessRecord": through(access_log, "log"),
    "detail::RecordedEvent": recorded_event,
    "detail::AnyEvent": event,
    "Event": through(event, "body_"),
    "detail::StreamSlot": slot,
    "detail::Stream": stream,
    "detail::AnyStream": through(stream, "stream_", "shared"),
    "Stream": through(stream, "body_", "stream_", "shared"),
    "detail::StreamGroup": group,
    "detail::AnyStreamGroup": through(group, "group_", "shared"),
    "StreamGroup": through(group, "body_", "group_", "shared"),
    "detail::StreamPool": pool,
    "detail::AnyStreamPool": through(pool, "pool_", "unique"),
    "StreamPool": through(pool, "body_", "shared", "pool_", "unique"),
    "detail::DeviceState": device,
    "detail::AnyDevice": through(device, "handle_", "shared", "state_", "shared"),
    "Device": through(device, "engine_", "handle_", "shared", "state_", "shared"),
    "detail::AnyStreamScope": scope,
    "StreamScope": through(scope, "body_"),
    "NameScope": name_scope,
    "GradientTape": tape,
    "checkpoint::Tensors": named_tensors,
}


class Printer:
    """Shows one object. Whatever goes wrong becomes the text."""

    def __init__(self, name, describe, value):
        try:
            if value.type.strip_typedefs().code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
                value = value.referenced_value()
            self.text, self.parts = describe(value)
        except Undescribed as type_name:
            self.text = f"<{name}: the program has no debug information of {type_name}>"
            self.parts = []
        except Exception as why:  # of Python as well: garbage may break any assumption
            self.text, self.parts = f"<not a valid {name}: {why}>", []

    def to_string(self):
        return self.text

    def children(self):
        return iter(self.parts)


class Subprinter(gdb.printing.SubPrettyPrinter):
    def __init__(self, name, describe):
        super().__init__(name)
        self.describe = describe


class Printers(gdb.printing.PrettyPrinter):
    def __init__(self):
        super().__init__("msstream", [Subprinter(*item) for item in PRINTERS.items()])
        self.by_name = {one.name: one for one in self.subprinters}

    def __call__(self, value):
        name = gdb.types.get_basic_type(value.type).name
        if name is None or not name.startswith("msstream::"):
            return None
        plain = name[len("msstream::") :]
        begin = plain.find("<")
        if begin >= 0:
            depth = 0
            for i, letter in enumerate(plain[begin:]):
                depth += (letter == "<") - (letter == ">")
                if depth == 0 and begin + i + 1 != len(plain):
                    return None  # a type inside a template, such as GradientTape<R>::Pause
                if depth == 0:
                    break
            plain = plain[:begin]
        found = self.by_name.get(plain)
        if found is None or not found.enabled:
            return None
        return Printer(plain, found.describe, value)


def register():
    gdb.printing.register_pretty_printer(None, Printers(), replace=True)
