"""What a figure says, as text."""

from __future__ import annotations

from matplotlib.figure import Figure


def said(plot: Figure | None) -> str:
    assert plot is not None
    of_axes = [text.get_text() for axes in plot.axes for text in (*axes.texts, axes.title, *axes.get_yticklabels())]
    keys = [text.get_text() for axes in plot.axes if axes.get_legend() for text in axes.get_legend().get_texts()]
    left = [axes.get_title(loc="left") for axes in plot.axes]
    return "\n".join([*(text.get_text() for text in plot.texts), *of_axes, *keys, *left])
