"""How long a run takes, the plan that fits its budget, when it ends, and what it measures again."""
