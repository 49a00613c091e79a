// inotify(7): watches are made last of all, with the numbers that they had.
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "resources/restore/other.h"

namespace cairn::restart {
namespace {

constexpr unsigned long set_next =
    _IOW('I', 0, std::int32_t);  // INOTIFY_IOC_SETNEXTWD, linux/inotify.h of 4.14
constexpr int most_skipped = 100'000;

struct Watch {
    std::int32_t number = 0;
    std::uint32_t mask = 0;
    std::string path;
    bool named = false;  // by a path of the program's, not by a descriptor of ours
};

std::vector<Watch> watches_of(const schema::Inotify& saved, const ObjectSetOptions& options,
                              const FindObject& fd_of) {
    std::vector<Watch> watches;
    for (const schema::InotifyWatch& each : saved.watches) {
        Watch watch{each.wd, each.mask, "", each.path.has_value()};
        watch.path = each.path ? mapped_path(*each.path, options)
                               : fd_path(fd_of ? fd_of(each.object.value_or(-1)) : -1);
        watches.push_back(std::move(watch));
    }
    std::ranges::sort(watches, {}, &Watch::number);
    return watches;
}

// What the kernel gives to the watch that is added next. It takes the number itself, and not its address.
// False: it can't be told (CONFIG_CHECKPOINT_RESTORE).
bool set_next_number(int fd, std::int32_t number) {
    return ::ioctl(fd, set_next, static_cast<unsigned long>(number)) == 0;
}

Result<> add(int fd, const Watch& watch, const std::string& path) {
    // Numbers are given upwards. Where the next can't be told they are used up, and what that leaves in the
    // queue is read away at the end.
    const bool direct = set_next_number(fd, watch.number);
    for (int tries = 0; tries < (direct ? 1 : most_skipped); ++tries) {
        const int number = ::inotify_add_watch(fd, path.c_str(), watch.mask);
        if (number == watch.number) return {};
        if (number < 0) return fail_errno("inotify: {} can't be watched", watch.path);
        if (number > watch.number || direct) break;
        ::inotify_rm_watch(fd, number);
    }
    return fail("inotify: {} can't be watched by its old number {} (two names of one file now?)", watch.path,
                watch.number);
}

// Events that nobody merges with the one before: a file is read and written by turns. It is opened by its
// name in /proc, because the descriptor of memfd_create(2) itself makes no events (Linux 6.14 and later).
Result<int> fill_with_events(int fd) {
    const Fd memory(::memfd_create("cairn-events", MFD_CLOEXEC));
    const Fd file(memory ? ::open(fd_path(memory.get()).c_str(), O_RDWR | O_CLOEXEC) : -1);
    if (!file) return fail_errno("memfd");
    const int decoy = ::inotify_add_watch(fd, fd_path(file.get()).c_str(), IN_MODIFY | IN_ACCESS);
    if (decoy < 0) return fail_errno("inotify_add_watch");
    constexpr int at_most = 1 << 24, looked_after = 1024;
    int waiting = -1;
    for (int events = 0; events < at_most; events += looked_after) {
        const int before = waiting;
        if (::ioctl(fd, FIONREAD, &waiting) != 0) return fail_errno("FIONREAD");
        if (waiting == before) break;
        for (int i = 0; i < looked_after; i += 2) {
            char byte = 0;
            if (::pwrite(file.get(), &byte, 1, 0) != 1 || ::pread(file.get(), &byte, 1, 0) != 1)
                return fail_errno("memfd");
        }
    }
    ::inotify_rm_watch(fd, decoy);     // the queue is full: this makes no event
    (void)set_next_number(fd, decoy);  // its number is the next one's, as if it had not been
    return waiting;
}

// The queue is filled until the kernel itself puts IN_Q_OVERFLOW at its end, behind which nothing comes as
// long as it is full, and then read but for that: some 30 ms for the 16,384 events that are usual
// (fs.inotify.max_queued_events). What is watched already may make events meanwhile: they are among those
// lost.
Result<> tell_of_lost_events(int fd) {
    int left = TRY(fill_with_events(fd));
    constexpr int size_of_overflow = sizeof(inotify_event);
    if (left <= size_of_overflow) return fail("inotify: its queue can't be filled");
    std::vector<char> events(65536);
    for (left -= size_of_overflow; left > 0;) {
        const auto size = std::min(static_cast<std::size_t>(left), events.size());
        const ssize_t got = ::read(fd, events.data(), size);
        if (got <= 0) return fail_errno("inotify: its queue can't be read");
        left -= static_cast<int>(got);
    }
    return {};
}

}  // namespace

Result<Fd> open_inotify(Opening&, const schema::Object&, const schema::Inotify&) {
    Fd fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (!fd) return fail_errno("inotify");
    return fd;
}

std::vector<std::string> missing_watched(const schema::Object& object, const ObjectSetOptions& options) {
    std::vector<std::string> paths, missing;
    if (const auto* saved = object.get<schema::Inotify>())
        for (const Watch& watch : watches_of(*saved, options, {}))
            if (watch.named) paths.push_back(watch.path);
    if (const auto* saved = object.get<schema::Fanotify>())
        for (const schema::FanotifyMark& mark : saved->watches)
            if (mark.path) paths.push_back(mapped_path(*mark.path, options));
    for (const std::string& path : paths) {
        if (options.remade.contains(path)) continue;
        const auto found = options.access.find(object, path);
        if (found) continue;
        missing.push_back(found.error().code == ExitCode::refused
                              ? found.error().what
                              : fmt::format("{}: {}; it was watched at the checkpoint (--path-map OLD=NEW if "
                                            "it is elsewhere now)",
                                            path, std::strerror(found.error().number)));
    }
    return missing;
}

Result<> watch_files(const schema::Object& object, int fd, const ObjectSetOptions& options,
                     const FindObject& find) {
    for (const Watch& watch : watches_of(*object.get<schema::Inotify>(), options, find)) {
        // Watched is what those who watch may read.
        Fd place;
        if (watch.named) {
            auto found = options.access.find(object, watch.path);
            if (!found) return std::unexpected(std::move(found.error()).in("inotify"));
            CHECK_OK(options.access.may_read(object, watch.path, *found));
            place = std::move(found->place);
        }
        CHECK_OK(add(fd, watch, place ? fd_path(place.get()) : watch.path));
    }
    const int flags = ::fcntl(fd, F_GETFL);
    ::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    char events[4096];
    while (::read(fd, events, sizeof events) > 0) {
    }
    auto told = object.get<schema::Inotify>()->unread ? tell_of_lost_events(fd) : Result<>();
    ::fcntl(fd, F_SETFL, flags);
    return told;
}

}  // namespace cairn::restart
