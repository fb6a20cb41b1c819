"""Where the time of a step goes: one file per framework, with the same names in the same order.

Each has `record`, which runs steps under the framework's own profiler and returns its events, each in one of
`suite.record.parts.profile.CATEGORIES`; `span`, which names a part of a step in the framework's trace; `code`, which
writes what a compiler made of the step; and `triad`, for the peak of memory bandwidth: a function that computes
``a = b + a / 2`` in place in float32 a given number of times and waits for it. `rules` is the table that gives
an operation its category by its name. `timeline` merges threads into shares of the wall clock, and `profiling` makes a
`Profile` of them.

Imported only where a launch is to be profiled.
"""
