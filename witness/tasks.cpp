#include "witness/tasks.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include "witness/proc_text.h"

namespace cairn::witness {
namespace {

// Fields of /proc/PID/stat behind the name, from the third on, as proc(5) calls them.
constexpr std::array stat_fields{
    "state",       "ppid",        "pgrp",        "session",     "tty_nr",
    "tpgid",       "flags",       "minflt",      "cminflt",     "majflt",
    "cmajflt",     "utime",       "stime",       "cutime",      "cstime",
    "priority",    "nice",        "num_threads", "itrealvalue", "starttime",
    "vsize",       "rss",         "rsslim",      "startcode",   "endcode",
    "startstack",  "kstkesp",     "kstkeip",     "signal",      "blocked",
    "sigignore",   "sigcatch",    "wchan",       "nswap",       "cnswap",
    "exit_signal", "processor",   "rt_priority", "policy",      "delayacct_blkio_ticks",
    "guest_time",  "cguest_time", "start_data",  "end_data",    "start_brk",
    "arg_start",   "arg_end",     "env_start",   "env_end",     "exit_code"};

bool outlives(std::string_view key) {
    constexpr std::array keys{"Name",  "State", "Tgid", "Pid",     "PPid",        "Uid",      "Gid",
                              "state", "ppid",  "pgrp", "session", "exit_signal", "exit_code"};
    return std::ranges::find(keys, key) != keys.end();
}

void see_stat(Facts& facts, const std::string& name, const std::string& folder) {
    const bool ended = has_ended(folder);
    const auto text = text_of(folder + "/stat");
    if (!text) return;
    const std::size_t behind = text->rfind(')');
    if (behind == std::string::npos) return;
    std::istringstream words(text->substr(behind + 1));
    std::string word;
    for (const char* field : stat_fields)
        if (words >> word && (!ended || outlives(field)))
            facts.put(fmt::format("{}/stat/{}", name, field), word);
}

// Lines "NAME: VALUE".
void see_pairs(Facts& facts, const std::string& name, const std::string& folder, const std::string& file) {
    const bool ended = has_ended(folder);
    std::istringstream lines(text_of(fmt::format("{}/{}", folder, file)).value_or(""));
    for (std::string line; std::getline(lines, line);) {
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos || (ended && !outlives(line.substr(0, colon)))) continue;
        std::string key = line.substr(0, colon);
        key.erase(key.find_last_not_of(" \t") + 1);
        const std::size_t value = line.find_first_not_of(" \t", colon + 1);
        facts.put(fmt::format("{}/{}/{}", name, file, key),
                  value == std::string::npos ? "" : line.substr(value));
    }
}

void see_text(Facts& facts, const std::string& name, const std::string& folder, const std::string& file) {
    const auto text = text_of(fmt::format("{}/{}", folder, file));
    if (!text) return;
    if (text->find('\n') == text->rfind('\n'))
        facts.put(fmt::format("{}/{}", name, file), *text);
    else
        facts.put_lines(fmt::format("{}/{}", name, file), *text);
}

void see_link(Facts& facts, const std::string& name, const std::string& folder, const std::string& file) {
    if (const auto link = link_of(fmt::format("{}/{}", folder, file)))
        facts.put(fmt::format("{}/{}", name, file), *link);
}

void see_folders(Facts& facts, const std::string& name, const std::string& folder) {
    for (const char* file : {"cwd", "root"})
        if (const auto link = link_of(fmt::format("{}/{}", folder, file)))
            facts.put(fmt::format("{}/{}{}", name, file,
                                  is_of_one_who_has_gone(folder, *link) ? "/leads to one who has gone" : ""),
                      *link);
}

// A time namespace that nobody but its maker's children are ever in is told apart from those that somebody is
// in.
void see_time_of_children(Facts& facts, const std::string& name, const std::string& folder) {
    const auto own = link_of(folder + "/ns/time"), childrens = link_of(folder + "/ns/time_for_children");
    if (!own || !childrens) return;
    facts.put(
        fmt::format("{}/ns/{}", name, *own == *childrens ? "time_for_children" : "time of children alone"),
        *childrens);
}

std::string with_newlines(std::string text) {
    for (char& letter : text)
        if (letter == '\0') letter = '\n';
    return text;
}

// sched_getattr(2): libc has no wrapper before 2.41.
void see_scheduling(Facts& facts, const std::string& name, pid_t tid) {
    std::array<std::uint32_t, 32> attributes{};
    if (syscall(SYS_sched_getattr, tid, attributes.data(), sizeof attributes, 0) == 0)
        facts.put_bytes(name + "/sched_getattr",
                        {reinterpret_cast<const unsigned char*>(attributes.data()), attributes[0]});
    cpu_set_t processors;
    CPU_ZERO(&processors);
    if (sched_getaffinity(tid, sizeof processors, &processors) == 0)
        facts.put_bytes(name + "/sched_getaffinity",
                        {reinterpret_cast<const unsigned char*>(&processors), 32});
    constexpr int ioprio_who_process = 1;
    if (const long priority = syscall(SYS_ioprio_get, ioprio_who_process, tid); priority >= 0)
        facts.put(name + "/ioprio_get", priority);
    void* head = nullptr;
    std::size_t size = 0;
    if (syscall(SYS_get_robust_list, tid, &head, &size) == 0)
        facts.put(name + "/get_robust_list", fmt::format("{} {}", head, size));
}

}  // namespace

void see_process(Facts& facts, pid_t pid) {
    const std::string name = std::to_string(pid);
    const std::string folder = "/proc/" + name;
    see_pairs(facts, name, folder, "status");
    see_stat(facts, name, folder);
    if (has_ended(folder)) return;
    see_pairs(facts, name, folder, "sched");
    for (const char* file : {"auxv", "environ", "cmdline"})
        if (const auto text = text_of(fmt::format("{}/{}", folder, file))) {
            if (std::string_view(file) == "auxv")
                facts.put_bytes(name + "/auxv",
                                {reinterpret_cast<const unsigned char*>(text->data()), text->size()});
            else
                facts.put_lines(fmt::format("{}/{}", name, file), with_newlines(*text));
        }
    for (const char* file : {"limits",
                             "coredump_filter",
                             "oom_score_adj",
                             "oom_adj",
                             "loginuid",
                             "sessionid",
                             "cgroup",
                             "cpuset",
                             "mountinfo",
                             "setgroups",
                             "uid_map",
                             "gid_map",
                             "projid_map",
                             "autogroup",
                             "timers",
                             "timens_offsets",
                             "ksm_merging_pages",
                             "arch_status",
                             "attr/current",
                             "attr/exec",
                             "attr/fscreate",
                             "attr/keycreate",
                             "attr/sockcreate",
                             "attr/prev"})
        see_text(facts, name, folder, file);
    see_folders(facts, name, folder);
    see_link(facts, name, folder, "exe");
    for (const char* kind : {"cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "user", "uts"})
        see_link(facts, name, folder, fmt::format("ns/{}", kind));
    see_time_of_children(facts, name, folder);
}

void see_thread(Facts& facts, pid_t pid, pid_t tid) {
    const std::string name = fmt::format("{}/task/{}", pid, tid);
    // A thread that isn't the main one has a folder of its own, which no listing shows and which has more
    // files than task/TID.
    const std::string folder = fmt::format("/proc/{}", tid);
    see_pairs(facts, name, folder, "status");
    see_stat(facts, name, folder);
    see_text(facts, name, folder, "comm");
    if (has_ended(folder)) return;
    see_pairs(facts, name, folder, "sched");
    for (const char* file :
         {"personality", "timerslack_ns", "wchan", "syscall", "patch_state", "attr/current"})
        see_text(facts, name, folder, file);
    see_folders(facts, name, folder);
    for (const char* kind : {"cgroup", "ipc", "mnt", "net", "pid_for_children", "user", "uts"})
        see_link(facts, name, folder, fmt::format("ns/{}", kind));
    see_time_of_children(facts, name, folder);
    see_scheduling(facts, name, tid);
}

}  // namespace cairn::witness
