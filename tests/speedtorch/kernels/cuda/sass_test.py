"""The machine code of the kernels that decide the bandwidth of a GPU: what ptxas makes of the PTX in the built objects.

A thread that moves rows by 16 bytes has four loads in flight only if all four are issued before the first store. The source
says so, but ptxas may order otherwise: it once put the first store behind the first load (docs/kernels.md). No GPU is needed."""

import functools
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

OBJECTS = [Path(name) for name in os.environ.get("STBENCH_CUDA_OBJECTS", "").split(":") if name]
PTXAS = os.environ.get("STBENCH_PTXAS", "")
TARGETS = {"sm_80": "sm_75", "sm_90": "sm_90", "sm_120": "sm_90"}  # the GPU, and whose PTX it runs
IN_FLIGHT = 4
HOT = re.compile(r"move_rows_kernelI\w*Word16\w*LaneMove")
FLAT = re.compile(r"flat_(step|square_sums)_kernel")
BATCHES = {"rows.cu": "cuda_rows.cu", "flat_step.cu": "cuda_steps.cu"}  # that sources are compiled in
ENTRY = re.compile(r"^(?:\.visible |\.weak )?\.entry ", re.MULTILINE)


def disassembler():
    """The folder of cuobjdump and nvdisasm that torch's triton brings; None where there is none."""
    try:
        import triton  # pylint: disable=import-outside-toplevel
    except ImportError:
        return None
    folder = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    return folder if (folder / "nvdisasm").exists() and (folder / "cuobjdump").exists() else None


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout + done.stderr


def ptx_of(tools, name, architecture):
    """The PTX for an architecture in the object of a source."""
    names = (f"{name}.o", f"{BATCHES[name]}.o")
    found = next(path for path in OBJECTS if path.name in names)
    parts = run(tools / "cuobjdump", "--dump-ptx", found).split("Fatbin ptx code:")
    text = next((part for part in parts if f"arch = {architecture}\n" in part), None)
    if text is None:
        raise unittest.SkipTest(f"the build has no PTX for {architecture}")
    return text[text.index(".version"):]


def only(ptx, wanted):
    """The module with those of its kernels alone whose names match."""
    head, *kernels = (ptx[begin:end] for begin, end in
                      zip([0] + [m.start() for m in ENTRY.finditer(ptx)], [m.start() for m in ENTRY.finditer(ptx)] + [len(ptx)]))
    return head + "".join(kernel for kernel in kernels if wanted.search(kernel[:400]))


@functools.cache
def machine_code(tools, ptx, target):
    """{kernel: its lines of SASS}, and what ptxas says of registers and spills."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "in.ptx").write_text(ptx, encoding="utf-8")
        said = run(PTXAS, f"-arch={target}", "-v", f"{folder}/in.ptx", "-o", f"{folder}/out.cubin")
        text = run(tools / "nvdisasm", "-c", f"{folder}/out.cubin")
    kernels, name = {}, None
    for line in text.splitlines():
        if section := re.match(r"\s*\.section\s+\.text\.(\w+)", line):
            name = section[1]
        elif name:
            kernels.setdefault(name, []).append(line)
    return kernels, said


def accesses(lines, width):
    """Runs of loads (L) and stores (S) of so many bytes between two jumps, labels or barriers, as in LLLLSSSS."""
    runs = [""]
    for line in lines:
        if re.search(r"\b(BRA|BSSY|BSYNC|EXIT|WARPSYNC)\b", line) or line.strip().endswith(":"):
            runs.append("")
        elif access := re.search(r"\b(LDG|STG|LD|ST)\.([\w.]*)", line):
            if str(8 * width) in access[2].split("."):
                runs[-1] += access[1][0]
    return [one for one in runs if one]


def innermost_loops(lines):
    """The lines of each loop that has none inside."""
    labels = {line.strip()[:-1]: number for number, line in enumerate(lines) if line.strip().endswith(":")}
    jumps = ((labels.get(jump[1]), end) for end, line in enumerate(lines) if (jump := re.search(r"\bBRA\b.*`\(([.\w]+)\)", line)))
    loops = [(begin, end) for begin, end in jumps if begin is not None and begin < end]
    return [lines[begin:end + 1] for begin, end in loops
            if not any(begin <= other[0] and other[1] <= end and other != (begin, end) for other in loops)]


class MachineCodeTest(unittest.TestCase):
    def setUp(self):
        self.tools = disassembler()
        if self.tools is None:
            self.skipTest("this Python has no triton with cuobjdump and nvdisasm")
        if not PTXAS:
            self.skipTest("the build has no CUDA kernels")

    def test_hot_kernels_issue_all_loads_before_a_store(self):
        """In two loops, of several rows and of one row's steps, each with all words there and without conditions. For sm_120 ptxas
        orders the second one otherwise in half of the kernels, with two loads before the first store."""
        for target, source in TARGETS.items():
            kernels, said = machine_code(self.tools, only(ptx_of(self.tools, "rows.cu", source), HOT), target)
            with self.subTest(target=target):
                self.assertEqual(len(kernels), 8, "four kinds of access, two of index")
                self.assertLessEqual(max(int(n) for n in re.findall(r"Used (\d+) registers", said)), 64)
            whole = {name: accesses(lines, 16).count("L" * IN_FLIGHT + "S" * IN_FLIGHT) for name, lines in kernels.items()}
            with self.subTest(target=target, whole=whole):
                if target == "sm_120":
                    self.assertEqual((min(whole.values()), max(whole.values())), (1, 2))
                    self.assertGreaterEqual(sum(whole.values()), 12)
                else:
                    self.assertEqual(set(whole.values()), {2})

    def test_nothing_is_spilled_where_bytes_are_moved(self):
        """One kernel for sm_120 keeps 4 bytes in memory: they are written once, and read once a part of a long row."""
        for target, source in TARGETS.items():
            kernels, said = machine_code(self.tools, only(ptx_of(self.tools, "rows.cu", source), HOT), target)
            spilled = [int(n) for n in re.findall(r"(\d+) bytes spill", said) if n != "0"]
            self.assertEqual(spilled, [4, 4] if target == "sm_120" else [], "stores and loads")
            for name, lines in kernels.items():
                with self.subTest(target=target, kernel=name):
                    self.assertFalse([line for inner in innermost_loops(lines) for line in inner if re.search(r"\b(LDL|STL)\b", line)])

    def test_half_gradients_are_loaded_by_four(self):
        ptx = only(ptx_of(self.tools, "flat_step.cu", "sm_90"), FLAT)
        self.assertNotRegex(ptx, r"ld\.global[.\w]*\.[us]16")
        self.assertRegex(ptx, r"ld\.global[.\w]*\.u64")


if __name__ == "__main__":
    unittest.main()
