// Registrations for membarrier(2): without one the expedited commands are refused. And what a program says of
// where its memory is to come from: set_mempolicy(2), mbind(2).
// ci: exact user
// rain: soak
// narrow: none
#include <linux/membarrier.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <atomic>
#include <thread>

#include "support.h"

namespace {

constexpr std::size_t page = 4096;

std::atomic<bool> other_is_default{true};

long membarrier(int command) {
    return syscall(SYS_membarrier, command, 0);
}
struct Policy {
    int mode = -1;
    unsigned long nodes[16] = {};
};
Policy policy_of(void* address) {
    Policy policy;
    CHECK(syscall(SYS_get_mempolicy, &policy.mode, policy.nodes, 1024, address, address ? MPOL_F_ADDR : 0) ==
          0);
    return policy;
}

}  // namespace

int main() {
    constexpr int private_expedited = MEMBARRIER_CMD_PRIVATE_EXPEDITED,
                  sync_core = MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE,
                  global = MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, get_registrations = 1 << 9;
    if (membarrier(MEMBARRIER_CMD_QUERY) < 0) test::skip("no membarrier");
    CHECK(membarrier(private_expedited) == -1 && errno == EPERM);
    CHECK(membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 && membarrier(global) == 0);

    char* memory = static_cast<char*>(
        mmap(nullptr, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    CHECK(memory != MAP_FAILED);
    memory[0] = memory[3 * page] = 1;
    const unsigned long first_node[16] = {1};
    const bool policies = syscall(SYS_mbind, memory + 2 * page, 2 * page, MPOL_BIND | MPOL_F_STATIC_NODES,
                                  first_node, 1024, 0) == 0;
    CHECK(policies || errno == ENOSYS || errno == EPERM);
    if (policies) {
        // Each thread has its own.
        std::thread([] {
            for (;; test::nap(5)) other_is_default = policy_of(nullptr).mode == MPOL_DEFAULT;
        }).detach();
        CHECK(syscall(SYS_mbind, memory + 5 * page, page, MPOL_PREFERRED, first_node, 1024, 0) == 0);
        CHECK(syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, first_node, 1024) == 0);
    }
    test::serve([&](bool) {
        const long registered = membarrier(get_registrations);
        CHECK(membarrier(private_expedited) == 0);
        if (registered >= 0) {
            CHECK(registered == (MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED | global));
            CHECK(membarrier(sync_core) == -1 && errno == EPERM);
        }
        if (!policies) return;
        const Policy own = policy_of(nullptr), bound = policy_of(memory + 3 * page), none = policy_of(memory),
                     preferred = policy_of(memory + 5 * page);
        CHECK(own.mode == MPOL_INTERLEAVE && own.nodes[0] == 1);
        CHECK(bound.mode == (MPOL_BIND | MPOL_F_STATIC_NODES) && bound.nodes[0] == 1);
        CHECK(preferred.mode == MPOL_PREFERRED && preferred.nodes[0] == 1);
        CHECK(none.mode == MPOL_DEFAULT && other_is_default);
        CHECK(memory[0] == 1 && memory[3 * page] == 1 && memory[5 * page] == 0);
    });
}
