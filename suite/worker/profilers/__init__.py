"""Where the time of a step goes: one file per framework, with the same names in the same order.

Each has `record`, which runs steps under the framework's own profiler and returns its events, each in one of
`suite.record.parts.profile.CATEGORIES`; `span`, which names a part of a step in the framework's trace; `code`, which
writes what a compiler made of the step; and `triad`, for the peak of memory bandwidth. The rules that give an operation
its category stand beside each, in ``*_rules``; kernels of CUDA have theirs in `kernel_rules`, whichever framework
launched them. `timeline` merges threads into shares of the wall clock, `profiling` makes a `Profile` of them.

Imported only where a launch is to be profiled.
"""
