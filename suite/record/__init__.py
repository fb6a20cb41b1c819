"""What crosses a process or goes to disk: records, jobs, environments. Imports `suite.plan` only."""
