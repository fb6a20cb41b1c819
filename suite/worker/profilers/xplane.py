"""What JAX and TensorFlow write of a profile, as rows; imports no framework, and runs in scripts that are measured."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

#: One event: its plane, its thread or stream, its name, begin and end in ns, and what else is known of it.
Row = tuple[str, str, str, int, int, dict[str, Any]]
#: What else is known of an event: the instruction and the program of XLA, the operation of TensorFlow.
KNOWN = ("hlo_op", "hlo_module", "tf_op", "name")
#: What else is told of: spans of the suite's, ends of instructions, TensorFlow's executor, a step that takes its batch.
TOLD = re.compile(r"suite: |end: |ExecutorState::Process$|(Base)?Collective|IteratorGetNext\w*::DoCompute$")


def is_read(row: Row) -> bool:
    """Whether anything is made of a row."""
    plane, line, name, *_, stats = row
    if plane.startswith("/device"):
        return line.startswith("Stream")
    is_ahead, (operation, *_) = line.startswith("tf_data"), name.split("#")
    is_operation = operation.count(":") == 1 and not is_ahead
    return "hlo_op" in stats or is_operation or TOLD.match(name) is not None


def rows_of_jax(profile: Any) -> Iterator[Row]:
    """The rows of a `jax.profiler.ProfileData`."""
    for plane in profile.planes:
        for line in plane.lines:
            for event in line.events:
                start, stats = round(event.start_ns), {key: str(value) for key, value in event.stats if key in KNOWN}
                yield plane.name, line.name, event.name, start, start + round(event.duration_ns), stats


def rows_of_tensorflow(space: Any) -> Iterator[Row]:
    """The rows of an XSpace, which TensorFlow's profiler writes."""
    for plane in space.planes:
        names = {number: each.name for number, each in plane.event_metadata.items()}
        keys = {number: each.name for number, each in plane.stat_metadata.items()}
        wanted = {number for number, name in keys.items() if name in KNOWN}
        on_gpu = plane.name.startswith("/device:GPU")
        for line in plane.lines:
            for event in line.events:
                stats = {}
                if on_gpu or ":" not in names[event.metadata_id]:  # operations have theirs in their names
                    stats = {
                        keys[each.metadata_id]: each.str_value or keys.get(each.ref_value, "")
                        for each in event.stats
                        if each.metadata_id in wanted
                    }
                start = line.timestamp_ns + event.offset_ps // 1000
                end = line.timestamp_ns + (event.offset_ps + event.duration_ps) // 1000
                yield plane.name, line.name, names[event.metadata_id], start, end, stats


def programs_of_tensorflow(space: Any, message: type, kinds: Any) -> dict[str, str]:
    """The programs that XLA optimised by name, in the words of its own text that `xla.program` reads.

    Of several of one name, as of batches of several lengths, it is the longest. ``message`` is an HloProto, and
    ``kinds`` names the types of elements.
    """
    texts: dict[str, str] = {}
    for plane in space.planes:
        for each in plane.event_metadata.values() if plane.name == "/host:metadata" else ():
            for stat in each.stats:
                hlo = message()
                hlo.ParseFromString(stat.bytes_value)
                text = "\n".join(_lines(hlo.hlo_module, kinds))
                texts[hlo.hlo_module.name] = max(texts.get(hlo.hlo_module.name, ""), text, key=len)
    return texts


def _lines(module: Any, kinds: Any) -> Iterator[str]:
    called = {each.id: each.name for each in module.computations}
    for computation in module.computations:
        names = {each.id: each.name for each in computation.instructions}
        yield f"{'ENTRY ' if computation.id == module.entry_computation_id else ''}%{computation.name} () -> () {{"
        for each in computation.instructions:
            operands = ", ".join(f"%{names[number]}" for number in each.operand_ids)
            more = f', custom_call_target="{each.custom_call_target}", metadata={{op_name="{each.metadata.op_name}"}}'
            calls = "".join(f", calls=%{called[number]}" for number in each.called_computation_ids)
            yield f"  %{each.name} = {_shape(each.shape, kinds)} {each.opcode}({operands}){more}{calls}"
        yield "}"


def _shape(shape: Any, kinds: Any) -> str:
    if shape.tuple_shapes:
        return f"({', '.join(_shape(each, kinds) for each in shape.tuple_shapes)})"
    return f"{kinds.Name(shape.element_type).lower()}[{','.join(map(str, shape.dimensions))}]"
