"""Starts a program as subprocess.run() does, for one loading of its libraries (tests/warm_start.cpp).

A child has its own words, folder, variables and standard streams. It shares with the first start what libraries read when
they are loaded, so a start whose variables of that kind differ from the first start's is an ordinary one."""

import atexit
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading


def preloadable(library):
    """A path of the library for LD_PRELOAD, which the loader splits at spaces and colons: if it has one, a link without."""
    if not re.search(r"[\s:]", library):
        return library
    folder = tempfile.mkdtemp(prefix="preloaded-")
    atexit.register(shutil.rmtree, folder)
    link = os.path.join(folder, os.path.basename(library))
    os.symlink(library, link)
    return link


LIBRARY = preloadable(os.environ.get("STBENCH_WARM_START", ""))
# Read by libraries when they are loaded.
READ_EARLY = ("ATEN_", "BENCHMARK_", "CUDA_", "EMULATED_", "GLIBC_", "GOMP_", "KMP_", "LD_", "MALLOC_", "MKL_", "NVIDIA_", "OMP_",
              "PYTORCH_", "THP_", "TORCH_")
servers = {}


class Server:
    """A process of a program that has loaded its libraries and starts it as often as it is asked."""

    def __init__(self, program, variables):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen(
            [program], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
            env={**variables, "LD_PRELOAD": LIBRARY, "WARM_START": str(theirs.fileno())})
        theirs.close()
        self.lock = threading.Lock()
        atexit.register(self.close)

    def close(self):
        self.socket.close()
        self.process.wait()

    def start(self, words, folder, variables, streams, timeout):
        """@returns the exit status as subprocess gives it"""
        pieces = [folder, str(len(words)), *words, *(f"{name}={value}" for name, value in variables.items())]
        text = b"".join(os.fsencode(piece) + b"\0" for piece in pieces)
        with self.lock:
            socket.send_fds(self.socket, [text], streams)
            child = self.receive(None)
            try:
                status = self.receive(timeout)
            except TimeoutError:
                os.kill(child, signal.SIGKILL)
                self.receive(None)
                raise subprocess.TimeoutExpired(words, timeout) from None
        return os.waitstatus_to_exitcode(status)

    def receive(self, timeout):
        self.socket.settimeout(timeout)
        answer = self.socket.recv(4)
        if len(answer) < 4:
            raise ConnectionError(f"the server of warm starts ended with {self.process.wait()}")
        return int.from_bytes(answer, "little", signed=True)


def server_of(program, variables):
    early = {name: value for name, value in variables.items() if name.startswith(READ_EARLY)}
    if "LD_PRELOAD" in early:
        return None
    if program not in servers:
        servers[program] = early, Server(program, variables)
    began_with, server = servers[program]
    return server if began_with == early else None


def run(program, words, folder, variables, timeout):
    """A subprocess.CompletedProcess with the texts that the program wrote."""
    command = [str(program), *map(str, words)]
    server = server_of(command[0], variables) if LIBRARY else None
    if server is None:
        return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=timeout, env=variables,
                              stdin=subprocess.DEVNULL, check=False)
    with open(os.devnull, "rb") as nothing, Output() as out, Output() as messages:
        status = server.start(command, os.path.abspath(folder or "."), variables,
                              [nothing.fileno(), out.writer, messages.writer], timeout)
        return subprocess.CompletedProcess(command, status, out.text(), messages.text())


class Output:
    """A pipe that a thread reads, as the program's output is a pipe where subprocess starts it."""

    def __enter__(self):
        self.reader, self.writer = os.pipe()
        self.pieces = []
        self.thread = threading.Thread(target=self.read)
        self.thread.start()
        return self

    def read(self):
        while piece := os.read(self.reader, 1 << 16):
            self.pieces.append(piece)

    def text(self):
        """All that was written, once the last writer has closed the pipe."""
        self.end()
        return b"".join(self.pieces).decode()

    def end(self):
        if self.writer is not None:
            os.close(self.writer)
            self.writer = None
        self.thread.join()

    def __exit__(self, *_):
        self.end()
        os.close(self.reader)
