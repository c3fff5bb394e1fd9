"""The figures, one kind a module. Each has `make(machines)`: its figures, and why there is none where there is none."""
