// Preloaded into a process, it ends the computation of a graph in the way that CRASH names, from the CRASH_AT-th on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ggml_backend_sched_graph_compute_async(void * sched, void * graph) {
    static int (*compute)(void *, void *);
    static long n, at;
    if (!compute) {
        compute = (int (*)(void *, void *)) dlsym(dlopen("libggml-base.so.0", RTLD_LAZY | RTLD_NOLOAD), "ggml_backend_sched_graph_compute_async");
        at = getenv("CRASH_AT") ? atol(getenv("CRASH_AT")) : 0;
    }
    const char * how = getenv("CRASH");
    if (how && ++n == at) {
        if (strcmp(how, "memory") == 0) {
            fputs("terminate called after throwing an instance of 'vk::OutOfDeviceMemoryError'\n", stderr);
            fputs("  what():  vk::Device::allocateMemory: ErrorOutOfDeviceMemory\n", stderr);
            abort();
        }
        if (strcmp(how, "assert") == 0) {
            fputs("/build/ggml/src/ggml.c:12: GGML_ASSERT(tensor) failed\n", stderr);
            abort();
        }
        raise(SIGSEGV);
    }
    return compute(sched, graph);
}
