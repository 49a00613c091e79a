#include "witness/sameness.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "witness/proc_text.h"

namespace cairn::witness {
namespace {

// <linux/kcmp.h>; KCMP_FILE is the first.
constexpr int kcmp_file = 0;
constexpr std::array<std::pair<int, const char*>, 6> tables{
    {{1, "memory"}, {2, "files"}, {3, "fs"}, {4, "sighand"}, {5, "io"}, {6, "sysvsem"}}};

bool same(pid_t one, pid_t other, int type, unsigned long first = 0, unsigned long second = 0) {
    return syscall(SYS_kcmp, one, other, type, first, second) == 0;
}

}  // namespace

void see_shared_tables(Facts& facts, const std::map<pid_t, std::vector<pid_t>>& threads) {
    for (const auto& [type, what] : tables) {
        std::vector<pid_t> first_of;  // one task for each that was found
        for (const auto& [pid, tids] : threads)
            for (const pid_t tid : tids) {
                if (has_ended(fmt::format("/proc/{}", tid))) continue;  // it has none of them any more
                pid_t representative = 0;
                for (const pid_t other : first_of)
                    if (same(other, tid, type)) {
                        representative = other;
                        break;
                    }
                if (representative == 0) first_of.push_back(representative = tid);
                facts.put(fmt::format("{}/task/{}/shares/{}", pid, tid, what), representative);
            }
    }
}

void see_shared_files(Facts& facts, const std::map<pid_t, std::vector<int>>& descriptors) {
    std::vector<std::pair<pid_t, int>> first_of;
    for (const auto& [pid, numbers] : descriptors)
        for (const int number : numbers) {
            std::pair<pid_t, int> representative{0, 0};
            for (const auto& [other, its] : first_of)
                if (same(other, pid, kcmp_file, static_cast<unsigned long>(its),
                         static_cast<unsigned long>(number))) {
                    representative = {other, its};
                    break;
                }
            if (representative.first == 0) first_of.push_back(representative = {pid, number});
            facts.put(fmt::format("{}/fd/{}/same as", pid, number),
                      fmt::format("{}/fd/{}", representative.first, representative.second));
        }
}

}  // namespace cairn::witness
