"""Freed memory stays where the C library allows it."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys, numpy
if sys.argv[1] == "keep":
    from breadcrumbs.memory import keep_freed_memory
    assert keep_freed_memory()
numpy.ones(8_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    numpy.ones(8_000_000)  # 64 MB, freed at once
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the settings are glibc's")
def test_freed_blocks_are_used_again_without_new_pages() -> None:
    def faults(mode: str) -> int:
        command = [sys.executable, "-c", PROGRAM, mode]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return int(done.stdout)

    assert faults("keep") * 10 < faults("default")
