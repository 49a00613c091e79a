// Who the process is: user, groups and capabilities of each thread, and namespaces of its own.
#include <linux/capability.h>
#include <linux/nsfs.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <sys/syscall.h>
#include <time.h>

#include "restart/restorer/blob.h"

namespace cairn::restart::restorer {
namespace {

void set_groups(Params* params, const Credentials& wanted) {
    if (wanted.set_groups != 0)
        must(params, step_credentials, call(SYS_setgroups, wanted.group_count, wanted.groups), 1);
    must(params, step_credentials, call(SYS_setresgid, wanted.gids[0], wanted.gids[1], wanted.gids[2]), 2);
    call(SYS_setfsgid, wanted.gids[3]);
}

void set_users(Params* params, const Credentials& wanted) {
    must(params, step_credentials, call(SYS_setresuid, wanted.uids[0], wanted.uids[1], wanted.uids[2]), 4);
    call(SYS_setfsuid, wanted.uids[3]);
}

constexpr std::uint64_t clone_new_time = 0x80;  // CLONE_NEWTIME
constexpr long o_wronly = 1;
constexpr long keep_permitted = 1 << 2;  // SECBIT_NO_SETUID_FIXUP: a change of uid leaves capabilities alone

// A namespace that nobody is in yet: setns(2) would take this process along.
void choose_clocks_of_children(Params* params) {
    if (params->clocks_of_children == 0) return;
    must(params, step_namespaces, call(SYS_unshare, clone_new_time), clone_new_time);
    const long file = call(SYS_open, "/proc/self/timens_offsets", o_wronly, 0);
    must(params, step_namespaces, file, clone_new_time);
    must(params, step_namespaces,
         call(SYS_write, file, params->clocks_of_children, params->clocks_of_children_size), clone_new_time);
    call(SYS_close, file);
}

}  // namespace

void set_credentials(Params* params, const Thread& thread) {
    const auto& wanted = thread.credentials != 0 ? *at<Credentials>(thread.credentials) : params->credentials;
    if (wanted.change == 0) return;
    const long had_bits = call(SYS_prctl, PR_SET_SECUREBITS, keep_permitted, 0, 0, 0);
    if (wanted.ids_kept == 0) set_groups(params, wanted);
    for (long capability = 0; capability < 64; ++capability)
        if ((wanted.cap_bounding >> capability & 1) == 0 &&
            call(SYS_prctl, PR_CAPBSET_READ, capability, 0, 0, 0) == 1)
            must(params, step_credentials, call(SYS_prctl, PR_CAPBSET_DROP, capability, 0, 0, 0), 3);
    if (wanted.ids_kept == 0) set_users(params, wanted);
    if (had_bits >= 0) call(SYS_prctl, PR_SET_SECUREBITS, wanted.securebits, 0, 0, 0);
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2] = {};
    for (int word = 0; word < 2; ++word) {
        data[word].effective = static_cast<std::uint32_t>(thread.cap_effective >> (32 * word));
        data[word].permitted = static_cast<std::uint32_t>(thread.cap_permitted >> (32 * word));
        data[word].inheritable = static_cast<std::uint32_t>(thread.cap_inheritable >> (32 * word));
    }
    must(params, step_credentials, call(SYS_capset, &header, data), 5);
    for (long capability = 0; capability < 64; ++capability)
        if ((thread.cap_ambient >> capability & 1) != 0)
            call(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0);
    if (wanted.keep_caps != 0) call(SYS_prctl, PR_SET_KEEPCAPS, 1, 0, 0, 0);
}

namespace {

// A child, on our stack while we sleep, that shares its folders with us: it makes one of its own in /proc the
// root of both, and ends. Its status says whether it could.
long bear_for_root(const char* path) {
    constexpr std::uint64_t flags = CLONE_VM | CLONE_VFORK | CLONE_FS | CLONE_FILES | CLONE_UNTRACED;
    const char* const here = ".";
    long child = SYS_clone;
    asm volatile(
        "xor %%edx, %%edx\n\t"
        "xor %%r10d, %%r10d\n\t"
        "xor %%r8d, %%r8d\n\t"
        "syscall\n\t"
        "test %%rax, %%rax\n\t"
        "jnz 1f\n\t"
        "mov %[path], %%rdi\n\t"
        "mov %[chdir], %%eax\n\t"
        "syscall\n\t"
        "test %%rax, %%rax\n\t"
        "jnz 2f\n\t"
        "mov %[here], %%rdi\n\t"
        "mov %[chroot], %%eax\n\t"
        "syscall\n"
        "2:\n\t"
        "mov %%eax, %%edi\n\t"
        "neg %%edi\n\t"
        "mov %[exit], %%eax\n\t"
        "syscall\n"
        "1:"
        : "+a"(child)
        : "D"(flags), "S"(0), [path] "b"(path), [here] "r"(here), [chdir] "i"(SYS_chdir),
          [chroot] "i"(SYS_chroot), [exit] "i"(SYS_exit)
        : "rcx", "r11", "rdx", "r10", "r8", "memory");
    return child;
}

// As unshare(2) with CLONE_NEWPID leaves it: the first process there is a child of ours, or was made by one.
void choose_pids_of_children(Params* params) {
    if (params->children_pids == 0) return;
    const long first = call(SYS_pidfd_open, params->children_pids, 0);
    const auto detail = static_cast<std::uint64_t>(params->children_pids);
    must(params, step_pids, first, detail);
    must(params, step_pids, call(SYS_setns, first, CLONE_NEWPID), detail);
    call(SYS_close, first);
}

// A child that ends at once, on our stack while we sleep. No SIGCHLD comes of it, and the tool isn't told.
long bear_and_end() {
    constexpr std::uint64_t flags = CLONE_VM | CLONE_VFORK | CLONE_UNTRACED;
    long child = SYS_clone;
    asm volatile(
        "xor %%edx, %%edx\n\t"
        "xor %%r10d, %%r10d\n\t"
        "xor %%r8d, %%r8d\n\t"
        "syscall\n\t"
        "test %%rax, %%rax\n\t"
        "jnz 1f\n\t"
        "mov %[exit], %%eax\n\t"
        "xor %%edi, %%edi\n\t"
        "syscall\n"
        "1:"
        : "+a"(child)
        : "D"(flags), "S"(0), [exit] "i"(SYS_exit)
        : "rcx", "r11", "rdx", "r10", "r8", "memory");
    return child;
}

// Which user namespace one that nobody was born into belongs to isn't told by the kernel: the process's own,
// unless it has changed that since.
void make_pids_of_children(Params* params) {
    if (params->empty_pids == 0) return;
    constexpr long any_child = 0x40000000;  // __WALL
    must(params, step_pids, call(SYS_unshare, CLONE_NEWPID), 0);
    if (params->ended_pids == 0) return;
    const long child = bear_and_end();
    must(params, step_pids, child, 0);
    must(params, step_pids, call(SYS_wait4, child, 0, any_child, 0), 0);
}

}  // namespace

// Nothing can be opened in such a folder, nor is anything in it, and nobody enters it when its process has
// ended: sandboxes lock themselves in there (Firefox's). It becomes the working folder, too.
void take_root_of_the_dead(Params* params) {
    constexpr long any_child = 0x40000000;  // __WALL
    std::int32_t status = 0;
    const long child = bear_for_root(at<char>(params->root_of_the_dead));
    must(params, step_root, child, 7);
    must(params, step_root, call(SYS_wait4, child, &status, any_child, 0), 7);
    must(params, step_root, -((status >> 8) & 0xff), 7);
}

// A user namespace takes over user and groups as the kernel knows them, and gives all capabilities in it. The
// kernel lets nobody in who has other threads or shares folders (userns_install(), kernel/user_namespace.c);
// those who have read the memory are gone only a moment after they have said so.
void enter_namespaces(Params* params) {
    constexpr long error_invalid = -22, error_users = -87;  // EUSERS: a time namespace's word for it
    if (params->children_pids_early != 0) choose_pids_of_children(params);
    const auto* all = at<std::int32_t>(params->namespaces);
    for (std::uint64_t i = 0; i < params->namespace_count; ++i) {
        auto& wanted = params->credentials;
        if (call(SYS_ioctl, all[i], NS_GET_NSTYPE) == CLONE_NEWUSER && wanted.ids_kept == 0) {
            call(SYS_prctl, PR_SET_SECUREBITS, keep_permitted, 0, 0, 0);
            set_groups(params, wanted);
            set_users(params, wanted);
            wanted.ids_kept = 1;
        }
        long result = error_invalid;
        for (int tries = 0; (result == error_invalid || result == error_users) && tries < 1000; ++tries) {
            if (tries > 0) {
                const timespec slice = {0, 1'000'000};
                call(SYS_nanosleep, &slice, nullptr);
            }
            result = call(SYS_setns, all[i], 0);
        }
        must(params, step_namespaces, result, static_cast<std::uint64_t>(all[i]));
    }
    if (params->children_pids_early == 0) choose_pids_of_children(params);
    attach_in_own_ipc(params);
    // A change of user has taken our memory out of the tool's reach.
    if (params->namespace_count != 0) call(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
    choose_clocks_of_children(params);
    make_pids_of_children(params);
}

}  // namespace cairn::restart::restorer
