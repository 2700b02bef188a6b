/* Run a model of ansorpy from C: one float input, one float output.

   unzip small.zip && cc -std=gnu11 -O2 -I. call_model.c ./libmodel.so -o call_model
   ./call_model INPUT.bin INPUT_BYTES OUTPUT.bin OUTPUT_BYTES THREADS */
#include "model.h"
#include <stdio.h>
#include <stdlib.h>

static void *memory(size_t bytes) { return aligned_alloc(64, (bytes / 64 + 1) * 64); }

static void *contents(const char *path, size_t bytes) {
    void *data = memory(bytes);
    FILE *file = fopen(path, "rb");
    if (!data || !file || fread(data, 1, bytes, file) != bytes) {
        fprintf(stderr, "cannot read %zu bytes of %s\n", bytes, path);
        exit(1);
    }
    fclose(file);
    return data;
}

int main(int count, char **words) {
    if (count != 6 || !model_supported()) return 1;
    size_t output_bytes = strtoul(words[4], NULL, 10);
    model_args args = {.in0 = contents(words[1], strtoul(words[2], NULL, 10)),
                       .out0 = memory(output_bytes),
                       .weights = contents("weights.safetensors", MODEL_WEIGHTS_BYTES),
                       .packed = memory(MODEL_PACKED_BYTES),
                       .arena = memory(MODEL_ARENA_BYTES),
                       .scratch = memory(MODEL_SCRATCH_BYTES)};
    model_prepare(args.weights, args.packed, args.scratch);
    ansorpy_pool *pool = model_pool_open(atoi(words[5]));
    model_run(&args, pool);
    model_pool_close(pool);
    FILE *file = fopen(words[3], "wb");
    if (!file || fwrite(args.out0, 1, output_bytes, file) != output_bytes) return 1;
    return fclose(file);
}
