#include "restart/become.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "common/io_uring_filter.h"
#include "resources/schema/descriptor_room.h"
#include "restart/rebuild/parameters.h"

namespace cairn::restart {
namespace {

// Each member of what was the foreground group says so itself: only a process of the session may.
void take_foreground(const schema::Process& process, const Arrival& arrival) {
    if (process.terminal < 0 || process.foreground != process.pgid) return;
    const auto node = std::ranges::find(arrival.nodes, process.pid, &forest::Node::pid);
    if (node == arrival.nodes.end() || node->group_outside) return;
    const auto object = arrival.index.find(process.terminal);
    const bool outer = object != arrival.index.end() && object->second->is<schema::Terminal>();
    if (outer && !arrival.terminal_foreground) return;
    const Lent terminal = arrival.objects.controlling_terminal(process);
    if (!terminal) return;
    sigset_t block, before;
    sigemptyset(&block);
    sigaddset(&block, SIGTTOU);
    ::sigprocmask(SIG_BLOCK, &block, &before);
    (void)ObjectSet::set_foreground(terminal.get(), KernelId(::getpgrp()));
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
}

// What stays open besides the process's own descriptors, until its memory is there.
std::vector<int> kept_open(const schema::Process& process, const Arrival& arrival) {
    std::vector<int> keep = {arrival.regions.of(process).fd.get(), arrival.image_place};
    const auto want = [&](std::int64_t object) {
        if (const int fd = arrival.objects.fd_of(object); fd >= 0) keep.push_back(fd);
    };
    for (const auto id : needed_to_rebuild(process)) want(id);
    std::ranges::sort(keep);
    keep.erase(std::ranges::unique(keep).begin(), keep.end());
    return keep;
}

Result<> open_image(const ImageReader& image, int place) {
    const auto opened = TRY(image.open_again());
    if (::dup2(opened.get(), place) < 0) return fail("{}", std::strerror(errno));
    return {};
}

// From install() on every number may be the program's: no owner of a descriptor of
// ours may end behind it.
Result<> arrange(const schema::Process& process, const ImageReader& image, const Arrival& arrival) {
    CHECK_OK(open_image(image, arrival.image_place));
    return arrival.objects.install(process, kept_open(process, arrival), arrival.to_kernel);
}

Result<> hide_io_uring(const schema::Process& process) {
    if (const int problem = process.io_uring_off ? turn_io_uring_off() : 0; problem != 0)
        return fail("was launched with --io-uring=enosys, and no seccomp filter can be had: {}",
                    std::strerror(problem));
    return {};
}

// A set-id program that the process executed without gaining anything (no_new_privs) gains nothing here
// either: the kernel heeds the bits for whom root traces, and the ids that the tool has by then would be the
// file's.
void gain_nothing(const schema::Process& process) {
    if (process.no_new_privs) ::prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL);
}

}  // namespace

void become(std::size_t index, const Arrival& arrival, Stage& stage) {
    stage.await(index);
    const auto& process = arrival.computation.processes[index];
    take_foreground(process, arrival);
    auto done = arrange(process, arrival.computation.images[index], arrival);
    if (done) done = hide_io_uring(process);
    gain_nothing(process);
    if (!done) {
        stage.report(index, done.error().what);
        ::_exit(127);
    }
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    // The kernel maps a ring of io_uring below the base that exec chooses (map_rings() of the restorer): as
    // high as it can be. The program gets its own personality back.
    if (std::ranges::any_of(process.areas, is_of_a_ring))
        ::personality(static_cast<unsigned long>(::personality(0xffffffff)) | ADDR_NO_RANDOMIZE);
    char name[] = "cairn-restart";
    char* const arguments[] = {name, nullptr};
    char* const environment[] = {nullptr};
    const int executable = arrival.objects.place_of(process, process.executable);
    ::syscall(SYS_execveat, executable, "", arguments, environment, AT_EMPTY_PATH);
    // Debian 11's 5.10.223 takes no empty path here.
    if (errno == ENOENT)
        ::execve(fmt::format("/proc/self/fd/{}", executable).c_str(), arguments, environment);
    stage.report(index, fmt::format("{} can't be executed: {}", path_of(arrival.index, process.executable),
                                    std::strerror(errno)));
    ::_exit(127);
}

Result<> arrange_descriptors(std::size_t index, const Arrival& arrival) {
    return arrange(arrival.computation.processes[index], arrival.computation.images[index], arrival);
}

std::string path_of(const ObjectIndex& index, std::int64_t object) {
    const auto found = index.find(object);
    return found == index.end() ? "?" : found->second->path;
}

std::string in_proc_of_the_dead(const ObjectIndex& index, std::int64_t object) {
    const auto found = index.find(object);
    if (found == index.end() || !found->second->deleted) return {};
    constexpr std::string_view proc = "/proc/", mark = " (deleted)";
    std::string_view path = found->second->path;
    if (!path.starts_with(proc)) return {};
    path.remove_prefix(proc.size());
    if (path.ends_with(mark)) path.remove_suffix(mark.size());
    const auto number = path.find_first_not_of("0123456789");
    if (number == 0) return {};
    const auto rest = number == std::string_view::npos ? std::string_view() : path.substr(number);
    // A thread's folder goes by its id.
    if (rest.starts_with("/task/") || (!rest.empty() && rest[0] != '/')) return {};
    return fmt::format("/proc/self{}", rest);
}

}  // namespace cairn::restart
