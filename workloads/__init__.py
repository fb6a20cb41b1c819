"""The training workloads: what is computed, on which data, from which weights. Imports nothing of `suite`.

PYTEST_DONT_REWRITE: its asserts are no tests, though it brings a plugin.
"""

from framework_training_suite import begin_if_command

begin_if_command()
