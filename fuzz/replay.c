/* Runs a fuzz target once over each file named, or over all of its corpus:
 * under any compiler, and to look at one input under a debugger. */

#include "fuzz.h"

#include <dirent.h>

#define FILE_MAX (1 << 20)

__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc;
    (void) argv;
    return 0;
}

static int count;

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
    fprintf(stderr, "%s\n", path); /* the last one is what failed */
    LLVMFuzzerTestOneInput(exact, len);
    free(exact);
    free(mem);
    count++;
}

/* The corpus of fuzz_NAME is called NAME. */
static void replay_corpus(const char *program)
{
    char path[4096];
    struct dirent **names;
    int n;

    snprintf(path, sizeof(path), FUZZ_CORPUS "/%s",
             strstr(program, "fuzz_") + strlen("fuzz_"));
    n = scandir(path, &names, NULL, alphasort);
    FUZZ_ASSERT(n > 2);
    for (int i = 0; i < n; i++) {
        char file[8192];

        snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name);
        if (names[i]->d_name[0] != '.')
            replay(file);
        free(names[i]);
    }
    free(names);
}

int main(int argc, char **argv)
{
    LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    if (argc == 1)
        replay_corpus(strrchr(argv[0], '/') + 1);
    printf("100%%: Inputs: %d\n", count);
    return EXIT_SUCCESS;
}
