"""The figures, one kind per module. Each has `make(machines)`: its figures, or the reason why there are none."""
