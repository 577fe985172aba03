"""Programs that `measure_against_tools.py` writes to files and compares with rigtune; none uses rigtune."""

from __future__ import annotations

STREAM = r"""
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#define PASSES 2000
static int ascending(const void *a, const void *b) { double x = *(double *)a, y = *(double *)b; return (x > y) - (x < y); }
int main(int count, char **words) {
    long n = atol(words[1]) / 8;
    double seconds = atof(words[2]), begun = omp_get_wtime();
    double *a = malloc(n * 8), *b = malloc(n * 8), *c = malloc(n * 8);
    static double copies[PASSES], triads[PASSES];
    int passes = 0;
    #pragma omp parallel for
    for (long i = 0; i < n; i++) { a[i] = 1; b[i] = 2; c[i] = 0; }
    while (passes < PASSES && (passes < 5 || omp_get_wtime() - begun < seconds)) {
        double t0 = omp_get_wtime();
        #pragma omp parallel for
        for (long i = 0; i < n; i++) c[i] = a[i];
        double t1 = omp_get_wtime();
        #pragma omp parallel for
        for (long i = 0; i < n; i++) a[i] = b[i] + 3.0 * c[i];
        copies[passes] = t1 - t0, triads[passes++] = omp_get_wtime() - t1;
    }
    qsort(copies, passes, 8, ascending), qsort(triads, passes, 8, ascending);
    printf("%g %g %g\n", 16.0 * n / copies[passes / 2], 24.0 * n / triads[passes / 2], a[n / 2] + c[n / 2]);
    return 0;
}
"""
"""STREAM's copy and triad; this program prints medians, whereas STREAM prints the best pass."""

NUMPY = """
import sys, time, statistics
import numpy as np
size, seconds = int(sys.argv[1]), float(sys.argv[2])
a, b, c = (np.random.default_rng(0).standard_normal((size, size), dtype=np.float32) for _ in range(3))
ends, durations = time.perf_counter() + seconds, []
while time.perf_counter() < ends or len(durations) < 8:
    begun = time.perf_counter()
    np.matmul(a, b, out=c)
    durations.append(time.perf_counter() - begun)
print(2 * size**3 / statistics.median(durations[len(durations) // 4 :]))
"""

SGEMM = """
import array, ctypes, glob, importlib.util, os, random, statistics, sys, time
size, seconds = int(sys.argv[1]), float(sys.argv[2])
folder = os.path.join(os.path.dirname(importlib.util.find_spec("torch").origin), "lib")
for name in ("libgomp*", "libc10.so"):
    for path in glob.glob(os.path.join(folder, name)):
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
sgemm = ctypes.CDLL(os.path.join(folder, "libtorch_cpu.so")).sgemm_
a, b, c = (array.array("f", [random.gauss(0, 1) for _ in range(4096)]) * (size * size // 4096) for _ in range(3))
a, b, c = ((ctypes.c_float * len(x)).from_buffer(x) for x in (a, b, c))
n, one, zero, plain = ctypes.c_int(size), ctypes.c_float(1), ctypes.c_float(0), ctypes.c_char(b"N")
ends, durations = time.perf_counter() + seconds, []
by = ctypes.byref
while time.perf_counter() < ends or len(durations) < 8:
    begun = time.perf_counter()
    sgemm(by(plain), by(plain), by(n), by(n), by(n), by(one), a, by(n), b, by(n), by(zero), c, by(n))
    durations.append(time.perf_counter() - begun)
print(2 * size**3 / statistics.median(durations[len(durations) // 4 :]))
"""

ALL_REDUCE = """
import json, os, statistics, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rates = {}
for size in json.loads(sys.argv[1]):
    values, durations = torch.zeros(size // 4), []
    for number in range(int(sys.argv[2])):
        dist.barrier()
        begun = time.perf_counter()
        dist.all_reduce(values)
        durations.append(time.perf_counter() - begun)
    both = [None] * dist.get_world_size()
    dist.all_gather_object(both, durations)
    slowest = [max(pair) for pair in zip(*both)]
    rates[size] = size / statistics.median(slowest[len(slowest) // 4 :])
if dist.get_rank() == 0:
    print(json.dumps(rates), flush=True)
dist.barrier()
os._exit(0)
"""
