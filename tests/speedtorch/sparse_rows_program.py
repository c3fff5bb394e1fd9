"""Speaks with sparse_rows_steps.cpp and optimizer_steps.cpp: the library's optimizers from Python."""

import subprocess


class Refused(Exception):
    """What the library threw."""


class Program:
    def __init__(self, program, threads=2):
        self._child = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if threads:
            self.ask("threads", threads)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._child.stdin.close()
        self._child.stdout.close()
        self._child.wait()

    def ask(self, *words):
        self._child.stdin.write(" ".join(map(str, words)) + "\n")
        self._child.stdin.flush()
        answer = self._child.stdout.readline().rstrip("\n")
        if answer.startswith("error: "):
            raise Refused(answer[7:])
        return answer

    def optimizer(self, name, *words, **options):
        """The states' names."""
        return self.ask("optimizer", name, *words, *(f"{key}={float(value)!r}" for key, value in options.items())).split()
