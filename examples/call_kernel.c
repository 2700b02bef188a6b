/* Call an exported kernel of two inputs and one output from C.

       unzip mm-0123456789ab.zip -d mm
       cc -O1 -Imm examples/call_kernel.c mm/libkernel.so -Wl,-rpath,$PWD/mm -o call_kernel
       ./call_kernel A.bin B.bin C.bin 2

   The files hold raw row-major tensors: the inputs are read, the output is written. */
#include "kernel.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifndef OUT_BYTES
#define OUT_BYTES 2048 /* of out0, as kernel.h tells: here float32[16][32] */
#endif

/* Return a file in 64-byte aligned memory. */
static void *contents(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) {
        perror(path);
        exit(1);
    }
    long size = ftell(file);
    void *memory = aligned_alloc(64, (size_t)(size / 64 + 1) * 64);
    rewind(file);
    if (!memory || fread(memory, 1, (size_t)size, file) != (size_t)size) {
        perror(path);
        exit(1);
    }
    fclose(file);
    return memory;
}

int main(int count, char **given) {
    if (count != 5) {
        fprintf(stderr, "usage: %s in0 in1 out0 threads\n", given[0]);
        return 2;
    }
    if (!kernel_supported()) {
        fprintf(stderr, "this processor cannot run the kernel: see kernel.h\n");
        return 1;
    }
    kernel_args args = {
        .in0 = contents(given[1]),
        .in1 = contents(given[2]),
        .out0 = aligned_alloc(64, (OUT_BYTES / 64 + 1) * 64),
        .workspace = aligned_alloc(64, (KERNEL_WORKSPACE_BYTES / 64 + 1) * 64),
    };
    int threads = atoi(given[4]);
    struct timespec begin, end;

    kernel_ahead(&args); /* packs weights: once */
    clock_gettime(CLOCK_MONOTONIC, &begin);
    if (threads > 0) {
        kernel_run_threads(&args, threads);
    } else { /* as a thread pool of your own would, here on one thread */
        for (int phase = 0; phase < KERNEL_PHASES; phase++)
            for (int64_t task = kernel_phases[phase].tasks; task-- > 0;)
                kernel_phases[phase].task(&args, task);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);

    FILE *out = fopen(given[3], "wb");
    if (!out || fwrite(args.out0, 1, OUT_BYTES, out) != OUT_BYTES || fclose(out)) {
        perror(given[3]);
        return 1;
    }
    double seconds = (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    printf("%.1f us\n", seconds * 1e6);
    return 0;
}
