#include "witness/look.h"

#include <map>
#include <vector>

#include "witness/descriptors.h"
#include "witness/inside.h"
#include "witness/memory.h"
#include "witness/proc_text.h"
#include "witness/robust.h"
#include "witness/sameness.h"
#include "witness/tasks.h"

namespace cairn::witness {

Result<Facts> look(const std::vector<pid_t>& processes) {
    Facts facts;
    std::map<pid_t, std::vector<pid_t>> threads;
    std::map<pid_t, std::vector<int>> descriptors;
    for (const pid_t pid : processes) {
        // One of several may just have ended.
        if (!text_of(fmt::format("/proc/{}/stat", pid))) continue;
        for (const pid_t each : tree_of(pid)) threads[each] = numbers_in(fmt::format("/proc/{}/task", each));
    }
    if (threads.empty()) return fail_code(ExitCode::usage, "none of these processes is there");
    LibcLayout layout;
    for (const auto& [each, tids] : threads) see_inside(facts, each, tids, layout);
    // Of all together: what a process has at an address has each at the same one that it has forked, of which
    // not every thread can be asked.
    std::vector<Unseen> unseen;
    for (const auto& [each, tids] : threads) {
        const ThreadLocal cairns = cairns_thread_local(each);
        add_library(unseen, each);
        for (const pid_t tid : tids) {
            add_thread(unseen, tid, layout, cairns);
            see_robust_list(facts, unseen, each, tid);
        }
    }
    for (const auto& [each, tids] : threads) {
        std::vector<Unseen> here = unseen;
        for (const pid_t tid : tids) {
            const std::uint64_t pointer = stack_pointer(tid, layout);
            if (pointer != 0)
                facts.put(fmt::format("{}/stack pointer/{}", each, tid), fmt::format("{:x}", pointer));
            add_stack(here, pointer);
        }
        see_process(facts, each);
        for (const pid_t tid : tids) see_thread(facts, each, tid);
        see_memory(facts, each, here);
        descriptors[each] = see_descriptors(facts, each);
    }
    see_shared_tables(facts, threads);
    see_shared_files(facts, descriptors);
    return facts;
}

}  // namespace cairn::witness
