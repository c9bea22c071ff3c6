# SPDX-License-Identifier: Apache-2.0
"""Reads values of the standard library, as libstdc++ stores them, for msstream_printers.py."""

import functools

import gdb

MAX_SHOWN = 200  # of a list of anything
MAX_TEXT = 4096  # characters of a name


class NotThat(Exception):
    """The memory does not hold what its type says."""


class Undescribed(Exception):
    """The program has no debug information of a type."""


def shown(text):
    """Returns a text on one line, whose control characters are escaped."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def text_at(pointer, length):
    if length > MAX_TEXT:
        raise NotThat(f"a text of {length} characters")
    if length == 0:
        return ""
    read = gdb.selected_inferior().read_memory(int(pointer), length).tobytes()
    return shown(read.decode("utf-8", "backslashreplace"))


def string(value):
    return text_at(value["_M_dataplus"]["_M_p"], int(value["_M_string_length"]))


def string_view(value):
    return text_at(value["_M_str"], int(value["_M_len"]))


def c_string(pointer):
    if int(pointer) == 0:
        return ""
    return shown(pointer.string("utf-8", "backslashreplace", MAX_TEXT).split("\0")[0])


def shared(value):
    """Returns the pointer of a std::shared_ptr."""
    return value["_M_ptr"]


def unique(value):
    """Returns the pointer of a std::unique_ptr."""
    pair = value["_M_t"]["_M_t"]  # a std::tuple of the pointer and the deleter
    parts = pair.cast(pair.type.strip_typedefs().fields()[0].type)
    head = next(
        field.type
        for field in parts.type.fields()
        if field.is_base_class and "_Head_base<0" in str(field.type)
    )
    return parts.cast(head)["_M_head_impl"]


def atomic(value):
    for path in (("_M_i",), ("_M_base", "_M_i"), ("_M_b", "_M_p")):
        try:
            return functools.reduce(lambda part, name: part[name], path, value)
        except gdb.error:
            continue
    raise NotThat("an atomic whose layout is unknown")


def count_of(vector):
    start, finish = vector["_M_impl"]["_M_start"], vector["_M_impl"]["_M_finish"]
    room = int(vector["_M_impl"]["_M_end_of_storage"]) - int(start)
    size = start.type.strip_typedefs().target().sizeof
    used = int(finish) - int(start)
    if not 0 <= used <= room or used % size:
        raise NotThat(f"a list whose end is {used} bytes behind its beginning")
    if int(start):
        gdb.selected_inferior().read_memory(int(start), 1)
    return used // size


def elements(vector, most=MAX_SHOWN):
    """Returns the first elements of a std::vector, `most` of them at most."""
    start = vector["_M_impl"]["_M_start"]
    return [start[i] for i in range(min(count_of(vector), most))]


def target(pointer, what):
    """Returns what a pointer points to. Its type may be known to the library alone."""
    if int(pointer) == 0:
        raise NotThat(f"no {what}: moved from, or not initialised")
    target_type(pointer)
    return pointer.dereference()


def target_type(pointer):
    pointed = pointer.type.strip_typedefs().target().strip_typedefs()
    if not pointed.fields():
        raise Undescribed(pointed.unqualified().name)
    return pointed


def member(pointer, name):
    """Returns a member of an object with virtual functions, whose own type gdb would look for."""
    kind = target_type(pointer)
    field = next(field for field in kind.fields() if field.name == name)
    at = int(pointer) + field.bitpos // 8
    return gdb.Value(at).cast(field.type.pointer()).dereference()


def plural(count, one, many=None):
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def place(location):
    """Returns file:line of a std::source_location; empty if it has none."""
    pointer = location["_M_impl"]
    if int(pointer) == 0:
        return ""
    return f"{c_string(pointer['_M_file_name'])}:{int(pointer['_M_line'])}"
