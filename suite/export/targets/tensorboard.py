"""TensorBoard: a folder of event files for each launch, in one folder per run.

The curves are scalars, the cell is in the HParams tab, and the plots of a report are images. The files are written
without TensorFlow, and their names and contents hold no host.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from suite.export.contents import curves, digest, figures, identity, plain, settings, start_of, took_s
from suite.export.target import Origin, RunFolder, TargetInfo, write_whole, writing
from suite.record.record import Record
from suite.record.text import clean

ABOUT = TargetInfo(
    "event files, a folder per launch",
    "folder for TensorBoard's --logdir; default: results/tensorboard",
    "tensorboard",
    "tensorboard",
    "results/tensorboard",
)

#: HParams' own names: the plugin, the tags of a session's begin and end, and the numbers that stand for its end.
HPARAMS = "hparams"
BEGIN, END = "_hparams_/session_start_info", "_hparams_/session_end_info"
SUCCESS, FAILURE = 1, 2


def begin(place: str, origin: Origin) -> RunFolder:
    """Make the run's folder."""
    folder = Path(place) / plain(origin.run)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return RunFolder(folder, origin.run)


def add(session: RunFolder, record: Record) -> bool:
    """Write a launch's event file, the whole of it or nothing."""
    name = f"events.out.tfevents.{int(start_of(record))}.{identity(session.run, record)[:16]}"
    file = session.path / plain(f"{record.cell.id}-launch{record.launch}", 160) / name
    if file.exists():
        return False
    _save(file, _events(session.run, record))
    return True


def attach(session: RunFolder, files: Sequence[Path]) -> int:
    """Show the plots of a report as images."""
    images = [(file.stem, *shown) for file in files if (shown := _image(file))]
    if images:
        summary = import_module("tensorboard.compat.proto.summary_pb2").Summary
        values = [
            summary.Value(
                tag=f"report/{plain(name)}",
                image=summary.Image(height=height, width=width, colorspace=4, encoded_image_string=encoded),
            )
            for name, encoded, width, height in images
        ]
        name = f"events.out.tfevents.0.report-{len(images)}"
        _save(session.path / "report" / name, [_event(0.0, 0, value) for value in values])
    return len(images)


def end(session: RunFolder) -> str:
    """Nothing is open any more."""
    return f"{session.path}: tensorboard --logdir {clean(session.path.parent)}"


def _events(run: str, record: Record) -> Iterator[Any]:
    protocol = import_module("tensorboard.compat.proto.summary_pb2")
    data = import_module("tensorboard.plugins.hparams.plugin_data_pb2")
    begin_s = start_of(record)
    end_s = begin_s + took_s(record)
    # The launches of a cell are one group, of which the tab shows means.
    start = data.SessionStartInfo(group_name=f"{record.cell.id} {digest(run)[:8]}", start_time_secs=begin_s)
    for name, setting in settings(record).items():
        if name == "launch":
            continue
        if isinstance(setting, str):
            start.hparams[name].string_value = setting
        else:
            start.hparams[name].number_value = setting
    yield _event(begin_s, 0, _hparams(protocol, BEGIN, data.HParamsPluginData(version=0, session_start_info=start)))
    points = ((point, name) for name, curve in curves(record).items() for point in curve)
    for point, name in sorted(points, key=lambda each: (each[0].at_s, each[1])):
        value = protocol.Summary.Value(tag=name.replace(".", "/", 1), simple_value=point.value)
        yield _event(begin_s + point.at_s, point.step, value)
    for name, figure in figures(record).items():
        tag = name.replace(".", "/", 1) if "." in name else f"launch/{name}"
        yield _event(end_s, 0, protocol.Summary.Value(tag=tag, simple_value=figure))
    outcome = data.SessionEndInfo(status=SUCCESS if record.outcome.ok else FAILURE, end_time_secs=end_s)
    yield _event(end_s, 0, _hparams(protocol, END, data.HParamsPluginData(version=0, session_end_info=outcome)))


def _hparams(protocol: Any, tag: str, data: Any) -> Any:
    plugin = protocol.SummaryMetadata.PluginData(plugin_name=HPARAMS, content=data.SerializeToString())
    return protocol.Summary.Value(tag=tag, metadata=protocol.SummaryMetadata(plugin_data=plugin))


def _event(at_s: float, step: int, value: Any) -> Any:
    summary = import_module("tensorboard.compat.proto.summary_pb2").Summary(value=[value])
    return import_module("tensorboard.compat.proto.event_pb2").Event(wall_time=at_s, step=step, summary=summary)


def _save(file: Path, events: Iterable[Any]) -> None:
    writer: Callable[..., Any] = import_module("tensorboard.summary.writer.record_writer").RecordWriter
    event = import_module("tensorboard.compat.proto.event_pb2").Event
    held = io.BytesIO()
    records = writer(held)
    records.write(event(file_version="brain.Event:2").SerializeToString())
    for each in events:
        records.write(each.SerializeToString())
    write_whole(file, held.getvalue())


def _image(file: Path) -> tuple[bytes, int, int] | None:
    """A plot as PNG with its width and height; None for what is no picture."""
    if file.suffix not in (".png", ".webp"):
        return None
    from PIL import Image

    held = io.BytesIO()
    with Image.open(file) as picture:
        picture.convert("RGBA").save(held, "PNG")
        return held.getvalue(), picture.width, picture.height
