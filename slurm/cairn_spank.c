// SPANK plugin: `sbatch --cairn[=SECONDS]` runs the job's batch script by `cairn slurm run` (docs/slurm.md). It executes that within the job, as the
// job's user, in the place of the script; all else is done by the command.
//
// plugstack.conf: optional /usr/local/lib/cairn/cairn_spank.so [cairn=COMMAND]; without it the command that is installed with the plugin.
#include <slurm/slurm.h>
#include <slurm/spank.h>

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

SPANK_PLUGIN(cairn, 1)

// slurmstepd loads the plugin anew for each step, and each step is one job's.
static int wanted = 0;
static char interval[32];

// SECONDS, perhaps with a fraction; an option without it has the site's interval.
static int take_option(int value, const char *argument, int remote) {
    (void)value;
    wanted = 1;
    // What srun starts is tied to srun and to Slurm's daemons, which can't be saved. Within a job the option is sbatch's, and in srun's environment.
    if (!remote && spank_context() == S_CTX_LOCAL && getenv("SLURM_JOB_ID") == NULL) {
        slurm_error("--cairn is for sbatch: what srun starts can't be saved; start MPI programs by mpiexec in a batch script");
        return ESPANK_ERROR;
    }
    if (argument == NULL || strcmp(argument, "(null)") == 0 || *argument == '\0') return ESPANK_SUCCESS;
    if (strspn(argument, "0123456789.") != strlen(argument) || strlen(argument) >= sizeof interval) {
        slurm_error("--cairn=%s: seconds between checkpoints", argument);
        return ESPANK_BAD_ARG;
    }
    memcpy(interval, argument, strlen(argument) + 1);
    return ESPANK_SUCCESS;
}

static struct spank_option cairn_option = {
    (char *)"cairn", (char *)"SECONDS", (char *)"checkpoint the job regularly and before it has to go; requeued it goes on", 2, 0, take_option};

int slurm_spank_init(spank_t spank, int count, char **arguments) {
    (void)count;
    (void)arguments;
    const spank_context_t context = spank_context();
    if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE) return ESPANK_SUCCESS;
    return spank_option_register(spank, &cairn_option);
}

// The command that is installed with this plugin, wherever the tree of both was put.
static void find_command(char *path, size_t size) {
    Dl_info self;
    const char *own = dladdr(&cairn_option, &self) != 0 ? self.dli_fname : "";
    const char *end = strrchr(own, '/');
    const int folder = end == NULL ? 0 : (int)(end - own);
    snprintf(path, size, "%.*s/%s/cairn", folder, own, CAIRN_LIB_TO_BIN);
}

int slurm_spank_task_init(spank_t spank, int count, char **arguments) {
    uint32_t step = 0;
    int words = 0;
    char **argv = NULL, **environment = NULL;
    if (!wanted || spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS || step != SLURM_BATCH_SCRIPT)
        return ESPANK_SUCCESS;
    if (spank_get_item(spank, S_JOB_ARGV, &words, &argv) != ESPANK_SUCCESS || words < 1 ||
        spank_get_item(spank, S_JOB_ENV, &environment) != ESPANK_SUCCESS) {
        slurm_error("cairn: Slurm doesn't tell the batch script");
        return ESPANK_ERROR;
    }
    char installed[PATH_MAX];
    find_command(installed, sizeof installed);
    const char *program = installed;
    for (int i = 0; i < count; ++i)
        if (strncmp(arguments[i], "cairn=", 6) == 0) program = arguments[i] + 6;
    const char **line = calloc((size_t)words + 8, sizeof *line);
    if (line == NULL) return ESPANK_ERROR;
    size_t at = 0;
    line[at++] = program;
    line[at++] = "slurm";
    line[at++] = "run";
    line[at++] = "--batch-script";
    if (interval[0] != '\0') {
        line[at++] = "--interval";
        line[at++] = interval;
    }
    line[at++] = "--";
    for (int i = 0; i < words; ++i) line[at++] = argv[i];
    execve(program, (char *const *)line, environment);
    slurm_error("cairn: %s: %s", program, strerror(errno));
    free(line);
    return ESPANK_ERROR;
}
