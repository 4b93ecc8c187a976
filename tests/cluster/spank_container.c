/* A plugin of Slurm for tests: it has the options of NVIDIA's pyxis that dsrun uses, and is as strict.
 *
 * As there, the task of a step with --container-image runs in a root file system, with mounts and its
 * own folder; the variables of the image (etc/environment) replace the task's, except those of
 * --container-env; and what fails is said in the words of pyxis 0.20 and enroot 3.5. Here the image is a
 * folder, which has /usr of the host.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

SPANK_PLUGIN(container, 1);

static char *image, *workdir, *mounts, *names;
static int home = -1;

/* Slurm tells an option twice, to srun and to slurmstepd; pyxis refuses a second value. */
static int once(char **kept, const char *name, const char *value) {
    if (value == NULL || *value == '\0' || (*kept && strcmp(*kept, value))) {
        slurm_error("pyxis: --container-%s %s", name,
                    value && *value ? "specified multiple times" : "argument required");
        return -1;
    }
    *kept = strdup(value);
    return 0;
}

static int on_image(int v, const char *text, int remote) { return once(&image, "image", text); }
static int on_mounts(int v, const char *text, int remote) { return once(&mounts, "mounts", text); }
static int on_workdir(int v, const char *text, int remote) { return once(&workdir, "workdir", text); }
static int on_env(int v, const char *text, int remote) { return once(&names, "env", text); }

static int on_home(int value, const char *text, int remote) {
    if (home != -1 && home != value) {
        slurm_error("pyxis: both --container-mount-home and --no-container-mount-home were specified");
        return -1;
    }
    home = value;
    return 0;
}

static struct spank_option options[] = {
    {"container-image", "IMAGE", "[pyxis] the image", 1, 0, on_image},
    {"container-mounts", "SRC:DST[:FLAGS]", "[pyxis] bind mounts", 1, 0, on_mounts},
    {"container-workdir", "PATH", "[pyxis] the working directory", 1, 0, on_workdir},
    {"container-env", "NAME", "[pyxis] variables to keep", 1, 0, on_env},
    {"container-mount-home", NULL, "[pyxis] mount the home", 0, 1, on_home},
    {"no-container-mount-home", NULL, "[pyxis] do not", 0, 0, on_home},
    SPANK_OPTIONS_TABLE_END};

int slurm_spank_init(spank_t sp, int ac, char **av) {
    spank_context_t where = spank_context();
    if (where != S_CTX_LOCAL && where != S_CTX_REMOTE) return 0; /* salloc and sbatch have none */
    for (struct spank_option *one = options; one->name; one++)
        if (spank_option_register(sp, one) != ESPANK_SUCCESS) return -1;
    return 0;
}

static int failed(const char *step, const char *why) {
    slurm_error("pyxis: %s", step);
    slurm_error("pyxis: printing enroot log file:");
    slurm_error("pyxis:     %s", why);
    return -1;
}

/* Make a file or folder at a path, as x-create=auto does for what it is to be a mount of. */
static void create(char *path, int is_folder) {
    for (char *at = path + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = '\0';
        mkdir(path, 0755);
    }
    if (is_folder)
        mkdir(path, 0755);
    else
        mknod(path, S_IFREG | 0644, 0);
}

static int bind(const char *source, const char *target, char *flags) {
    char path[4096], why[9000];
    struct stat seen;
    int nofail = 0, read_only = 0;
    snprintf(path, sizeof path, "%s%s", image, target);
    errno = EINVAL;
    if (strpbrk(source, " \t\n\"$`\\") || strpbrk(target, " \t\n\"$`\\") || *target != '/') goto fail;
    for (char *flag; (flag = strsep(&flags, "+"));)
        if (!strcmp(flag, "nofail")) nofail = 1;
        else if (!strcmp(flag, "ro")) read_only = 1;
        else if (strcmp(flag, "rw") && strcmp(flag, "rprivate") && *flag) goto fail;
    if (stat(source, &seen) == 0) create(path, S_ISDIR(seen.st_mode));
    if (mount(source, path, NULL, MS_BIND | MS_REC, NULL)) goto fail;
    if (read_only && mount(NULL, path, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL)) goto fail;
    return 0;
fail:
    if (nofail) return 0;
    snprintf(why, sizeof why, "enroot-mount: failed to mount: %s at %s: %s", source, path,
             strerror(errno));
    return failed("container start failed with error code: 1", why);
}

static int enter(void) {
    static const char *const system[] = {"/usr", "/proc", "/sys", "/dev", "/etc/hosts", NULL};
    char path[4096], why[5000];
    snprintf(path, sizeof path, "%s/etc/environment", image);
    if (access(path, R_OK)) {
        slurm_error("pyxis: child %d failed with error code: 1", getpid());
        snprintf(why, sizeof why, "[ERROR] No such file or directory: %s", image);
        return failed("failed to create container filesystem", why);
    }
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) ||
        mount(image, image, NULL, MS_BIND, NULL)) return failed("unshare", strerror(errno));
    for (int i = 0; system[i]; i++)
        if (bind(system[i], system[i], NULL)) return -1;
    snprintf(path, sizeof path, "%s/tmp", image);
    create(path, 1);
    if (mount("tmpfs", path, "tmpfs", 0, NULL)) return failed("tmpfs", strerror(errno));
    if (home == 1 && bind(getenv("HOME"), getenv("HOME"), NULL)) return -1;
    for (char *all = mounts, *one; (one = strsep(&all, ","));) {
        char *source = strsep(&one, ":"), *target = strsep(&one, ":");
        if (bind(source, target ? target : source, one)) return -1;
    }
    if (chdir(image) || syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH) ||
        chdir(workdir ? workdir : "/")) return failed("couldn't chdir", strerror(errno));
    return 0;
}

static int is_kept(const char *name) {
    char *copy = strdup(names ? names : ""), *rest = copy, *one;
    while ((one = strsep(&rest, ",")) && strcmp(one, name));
    free(copy);
    return one != NULL;
}

/* Have the variables of the image, and for an image of PyTorch the ranks that pyxis makes up. */
static int environment(spank_t sp) {
    static const char *const locale[] = {"LANG", "LANGUAGE", "LC_ALL", NULL};
    char line[4096], rank[32];
    for (int i = 0; locale[i]; i++)
        if (!is_kept(locale[i])) spank_unsetenv(sp, locale[i]);
    FILE *file = fopen("/etc/environment", "re");
    while (file && fgets(line, sizeof line, file)) {
        char *value = line, *name = strsep(&value, "=");
        if (value == NULL) continue;
        value[strcspn(value, "\n")] = '\0';
        spank_setenv(sp, name, value, !is_kept(name));
    }
    if (file) fclose(file);
    if (spank_getenv(sp, "PYTORCH_VERSION", line, sizeof line) != ESPANK_SUCCESS) return 0;
    for (int i = 0; i < 2; i++)
        if (spank_getenv(sp, i ? "SLURM_LOCALID" : "SLURM_PROCID", rank, sizeof rank) ||
            spank_setenv(sp, i ? "LOCAL_RANK" : "RANK", rank, 1)) return -1;
    return 0;
}

int slurm_spank_task_init(spank_t sp, int ac, char **av) {
    if (!spank_remote(sp) || image == NULL) return 0;
    if (enter()) {
        slurm_error("pyxis: couldn't start container");
        return -1;
    }
    return environment(sp);
}
