"""A probe that keeps the device busy with large matrix products until it is ended; its answer says that it began."""

from __future__ import annotations

import numpy as np

from suite.plan.cell import Cell
from tests.cuda.probing import Request


def main() -> None:
    request = Request.read()
    cell = Cell("cifar100_cnn", request.framework, "bf16")
    request.prepare(cell)
    side = request.rest["side"]
    run = request.code.multiplication(
        cell, request.device, *(np.random.default_rng(0).standard_normal((2, side, side)) / side)
    )
    run(3)
    request.answer("busy", found=True)
    while True:
        run(50)


if __name__ == "__main__":
    main()
