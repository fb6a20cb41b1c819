"""Is a port the same model? In float64, layer by layer: ``training-suite prove PATH``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from framework_training_suite import CommandError
from suite.plan.cell import FRAMEWORKS, SIZES
from suite.plan.command.common import FRAMEWORK, command, option
from suite.prove.numbers import Given, Numbers
from suite.prove.output import verdict
from suite.prove.questions import answer, collect_given, workload_at, write_given
from suite.record.text import clean
from suite.session.launches.launch import LaunchError, scratch_folder
from workloads import registry
from workloads.data.progress import waiting
from workloads.faults import FAULTS, describe_fault, fault_lies_in
from workloads.spec import specification

EPILOG = """\
examples:
  training-suite prove my_model                                      all frameworks that it has a file for
  training-suite prove my_model --framework pytorch,jax              the first is the reference
  training-suite prove my_model --weights trained.safetensors        with weights of your own
  training-suite prove imdb_lstm                                     one of the suite's own

All frameworks get the same weights and batches, in float64 on the CPU. Compared are tensors and their counts, logits,
loss, every gradient, three optimizer steps, an evaluation after them, dropout by its draws, and all answers once more
at a larger scale. Where they differ, it says at which layer first, and names the cause if a known one explains the
numbers, or else shows the lines of code.

exit status: 0 the same, if need be but for constants that Keras rounds; 1 they differ, or the spec's dropout was not
seen; 2 wrong usage; 3 a framework could not be asked, or there is only one; 130 interrupted
"""


@command(
    "suite.prove", __doc__, EPILOG,
    option("path", metavar="PATH", help="folder of a workload, or the name of one of the suite's own"),
    FRAMEWORK.but(help=f"of {', '.join(FRAMEWORKS)}; the first is the reference (default: all that have a file)"),
    option("--size", choices=SIZES, default="small", help="of the workload (default: small)"),
    option("--weights", metavar="FILE",
           help="weights by canonical names, .npz or .safetensors (default: random ones)"),
)  # fmt: skip
def main(options: argparse.Namespace) -> int:
    """Ask the frameworks, compare, and print a table for each pair."""
    try:
        workload = workload_at(options.path)
        frameworks = list(dict.fromkeys(options.framework or registry.frameworks_of(workload)))
        spec = specification(workload, options.size)
        of = collect_given(workload, spec, options.weights)
        print(f"{workload}, size {options.size}: {spec.parameters:,} parameters, {', '.join(frameworks)}; float64, CPU")
        found = _ask(workload, frameworks, options.size, of)
    except (CommandError, OSError, KeyError) as error:
        raise CommandError(error) from None
    except FAULTS as error:
        places = [Path(registry.folder_of(name)) for name in registry.names()]
        if not any(fault_lies_in(error, place) for place in places):
            raise
        raise CommandError(describe_fault(error, places[0])) from None
    if len(found) < 2:
        print("training-suite prove: nothing to compare with; add the file of a second framework", file=sys.stderr)
        return 3
    reference, *others = found
    lines, all_same = verdict(reference, others, of)
    print("\n".join(lines))
    return 1 if not all_same else 0 if len(found) == len(frameworks) else 3


def _ask(workload: str, frameworks: list[str], size: str, of: Given) -> list[Numbers]:
    """The answers of those that gave one; the others' reasons are printed."""
    found = []
    with scratch_folder() as folder:
        write_given(of, Path(folder))
        for framework in frameworks:
            try:
                with waiting(f"asking {framework}"):
                    found.append(answer(workload, framework, size, Path(folder)))
            except LaunchError as error:
                print(f"training-suite prove: {clean(error, 1000)}", file=sys.stderr)
    return found


if __name__ == "__main__":
    sys.exit(main())
