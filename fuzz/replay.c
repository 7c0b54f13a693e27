/* Runs a fuzz target once over each file named: for compilers without
 * libFuzzer, and to look at one input under a debugger. */

#include "fuzz.h"

#define FILE_MAX (1 << 20)

__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc;
    (void) argv;
    return 0;
}

static void replay(const char *path)
{
    unsigned char *mem = fuzz_alloc(FILE_MAX), *exact;
    FILE *f = fopen(path, "rb");
    size_t len;

    if (f == NULL) {
        fprintf(stderr, "replay: cannot open %s\n", path);
        exit(EXIT_FAILURE);
    }
    len = fread(mem, 1, FILE_MAX, f);
    fclose(f);
    exact = fuzz_alloc(len);
    if (len > 0)
        memcpy(exact, mem, len);
    LLVMFuzzerTestOneInput(exact, len);
    free(exact);
    free(mem);
}

int main(int argc, char **argv)
{
    LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    printf("%d inputs replayed\n", argc - 1);
    return EXIT_SUCCESS;
}
