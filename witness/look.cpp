#include "witness/look.h"

#include <map>
#include <vector>

#include "witness/descriptors.h"
#include "witness/inside.h"
#include "witness/memory.h"
#include "witness/proc_text.h"
#include "witness/sameness.h"
#include "witness/tasks.h"

namespace cairn::witness {

Result<Facts> look(const std::vector<pid_t>& processes) {
    Facts facts;
    std::map<pid_t, std::vector<pid_t>> threads;
    std::map<pid_t, std::vector<int>> descriptors;
    for (const pid_t pid : processes) {
        if (!text_of(fmt::format("/proc/{}/stat", pid))) return fail_errno("process {}", pid);
        for (const pid_t each : tree_of(pid)) threads[each] = numbers_in(fmt::format("/proc/{}/task", each));
    }
    LibcLayout layout;
    for (const auto& [each, tids] : threads) see_inside(facts, each, tids, layout);
    for (const auto& [each, tids] : threads) {
        const ThreadLocal cairns = cairns_thread_local(each);
        std::vector<Unseen> unseen;
        for (const pid_t tid : tids) add_thread(unseen, tid, layout, cairns);
        see_process(facts, each);
        for (const pid_t tid : tids) see_thread(facts, each, tid);
        see_memory(facts, each, unseen);
        descriptors[each] = see_descriptors(facts, each);
    }
    see_shared_tables(facts, threads);
    see_shared_files(facts, descriptors);
    return facts;
}

}  // namespace cairn::witness
