#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <set>

#include "common/schema/fields.h"
#include "restart/objects/other.h"
#include "restart/objects/shared_array.h"
#include "restart/objects/system_v.h"

namespace cairn::restart {

using schema::Object;
using schema::ObjectKind;

struct ObjectSet::State {
    std::map<std::int64_t, Fd> opened, launchers;
    std::map<std::int64_t, std::array<Fd, 3>> stand_ins;

    // At this number; higher ones mostly keep a copy of where output goes (`exec 3>&1`).
    [[nodiscard]] int stand_in(std::int64_t object, int number) const {
        const auto found = stand_ins.find(object);
        if (found == stand_ins.end()) return -1;
        return found->second.at(static_cast<std::size_t>(number > 2 ? 1 : number)).get();
    }
    // What install(), after_forest() and controlling_terminal() need of the objects.
    std::map<std::int64_t, Object> objects;
    ObjectSetOptions options;
    int floor = 0;
    std::vector<Cut> cuts;
    std::map<std::int64_t, Fd> refills;
    pid_t tool = ::getpid();
    // By object id: an epoll that several have is being filled; the number in the tool, and one, of what it
    // opened when the processes were there already.
    std::unique_ptr<SharedArray<bool>> claimed;
    std::unique_ptr<SharedArray<std::int32_t>> later;
};

int reopen_flags(std::int32_t flags) {
    return (flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_ASYNC | O_CLOEXEC | O_NOFOLLOW)) | O_NOCTTY;
}

std::string fd_path(int fd) {
    return fmt::format("/proc/self/fd/{}", fd);
}

std::string mapped_path(const std::string& path, const ObjectSetOptions& options) {
    const std::pair<std::string, std::string>* best = nullptr;
    for (const auto& each : options.path_map) {
        const std::string& old = each.first;
        if (old.empty() || !path.starts_with(old)) continue;
        const bool whole = path.size() == old.size() || old.back() == '/' || path[old.size()] == '/';
        if (whole && (!best || old.size() > best->first.size())) best = &each;
    }
    return best ? best->second + path.substr(best->first.size()) : path;
}

Result<> Opening::keep(const Object& object, Fd fd) {
    if (auto done = keep_copy(object, fd.get()); !done) return done;
    return {};
}

Result<> Opening::keep_copy(const Object& object, int fd) {
    Fd high(::fcntl(fd, F_DUPFD, options.floor));
    if (!high && (errno == EMFILE || errno == EINVAL))
        return fail_code(
            ExitCode::failed,
            "the limit of open files is too low: the programs use descriptors up to {}, and the objects "
            "that they share have to be open above that at once: raise `ulimit -Hn`",
            options.floor - 1);
    if (!high) return fail_errno("F_DUPFD");
    opened.insert_or_assign(object.id, std::move(high));
    return {};
}

bool Opening::stand_in(const Object& object) {
    const int own = object.standard < 0 ? -1 : options.standard.at(static_cast<std::size_t>(object.standard));
    if (own < 0 || !keep_copy(object, own)) return false;
    if ((object.flags & O_ACCMODE) != O_RDWR) return true;
    auto& each = stand_ins[object.id];
    for (std::size_t number = 0; number < each.size(); ++number) {
        each[number].reset(::fcntl(options.standard[number], F_DUPFD, options.floor));
        if (each[number]) continue;
        const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
        each[number].reset(::fcntl(null.get(), F_DUPFD, options.floor));
    }
    return true;
}

int lowest_floor(std::span<const schema::Process> processes) {
    int highest = 255;  // leaves room for what the tool and its children open themselves
    for (const schema::Process& process : processes)
        for (const schema::Descriptor& descriptor : process.descriptors)
            highest = std::max(highest, descriptor.fd);
    return highest + 1;
}

ObjectSet::ObjectSet(std::unique_ptr<State> state) : state_(std::move(state)) {}
ObjectSet::ObjectSet(ObjectSet&&) noexcept = default;
ObjectSet& ObjectSet::operator=(ObjectSet&&) noexcept = default;
ObjectSet::~ObjectSet() = default;

namespace {

// The terminal of the part: the one that controls a session, else the one of a standard descriptor.
std::int64_t find_main_terminal(const schema::Objects& objects) {
    std::int64_t main = -1;
    for (const Object& object : objects.objects) {
        if (object.kind != ObjectKind::terminal) continue;
        if (object.session != 0) return object.pty;
        if (main < 0 && object.standard >= 0) main = object.pty;
    }
    return main;
}

// The ends of each pipe (or terminal) together.
template <class Id>
std::map<std::int64_t, std::vector<const Object*>> grouped(const schema::Objects& objects, Id id) {
    std::map<std::int64_t, std::vector<const Object*>> groups;
    for (const Object& object : objects.objects)
        if (id(object) >= 0) groups[id(object)].push_back(&object);
    return groups;
}

// Deleted executables can't be executed as long as anybody has them open for writing.
Result<> make_read_only(Opening& opening) {
    for (const Object& object : opening.objects.objects) {
        if (object.kind != ObjectKind::memory || (object.flags & O_ACCMODE) != O_RDONLY ||
            is_system_v(object))
            continue;
        Fd& fd = opening.opened.at(object.id);
        const Fd again(::open(fd_path(fd.get()).c_str(), O_RDONLY | O_CLOEXEC));
        if (!again) return fail_errno("{}", object.path);
        if (auto done = opening.keep_copy(object, again.get()); !done) return done;
    }
    return {};
}

Result<> open_each(Opening& opening) {
    const auto with_name = [](const Object& object, Result<> done) -> Result<> {
        if (done) return done;
        return std::unexpected(
            std::move(done.error()).in(object.path.empty() ? schema::name_of(object.kind) : object.path));
    };
    for (const Object& object : opening.objects.objects)
        if (object.kind == ObjectKind::memory && !is_system_v(object))
            if (auto done = with_name(object, open_memory(opening, object)); !done) return done;
    for (const Object& object : opening.objects.objects)
        if (object.kind == ObjectKind::file)
            if (auto done = open_file(opening, object); !done) return done;
    for (const auto& [id, ends] :
         grouped(opening.objects, [](const Object& object) { return object.pipe; })) {
        if (ends.front()->kind == ObjectKind::other) continue;
        if (auto done = open_pipe(opening, ends); !done) return done;
    }
    for (const Object& object : opening.objects.objects)
        if (object.kind == ObjectKind::other && !is_system_v(object))
            if (auto done = with_name(object, open_other(opening, object)); !done) return done;
    for (const auto& [id, ends] : grouped(opening.objects, [](const Object& object) { return object.pty; }))
        if (auto done = open_terminal(opening, ends); !done) return done;
    if (auto done = open_tcp_sockets(opening); !done) return done;
    if (auto done = open_datagram_sockets(opening); !done) return done;
    if (auto done = open_unix_sockets(opening); !done) return done;
    return make_read_only(opening);
}

}  // namespace

Result<ObjectSet> ObjectSet::open_all(const schema::Objects& objects, const ImageReader& image,
                                      const ObjectSetOptions& options, std::vector<std::string>& notes) {
    if (auto done = check_files(objects, options, notes); !done) return std::unexpected(done.error());
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
    Opening opening{objects, image, options, notes, find_main_terminal(objects), {}, {}, {}, {}, {}};
    if (auto done = open_each(opening); !done) return std::unexpected(std::move(done.error()));
    auto state = std::make_unique<State>();
    state->opened = std::move(opening.opened);
    state->launchers = std::move(opening.launchers);
    state->stand_ins = std::move(opening.stand_ins);
    state->cuts = std::move(opening.cuts);
    state->refills = std::move(opening.refills);
    state->options = options;
    state->floor = options.floor;
    std::int64_t highest = 0;
    for (const Object& object : objects.objects) highest = std::max(highest, object.id);
    state->claimed = std::make_unique<SharedArray<bool>>(static_cast<std::size_t>(highest) + 1);
    state->later = std::make_unique<SharedArray<std::int32_t>>(static_cast<std::size_t>(highest) + 1);
    for (const Object& object : objects.objects) {
        Object small = object;
        if (!state->refills.contains(object.id)) small.pages.clear();
        small.contents.clear();
        state->objects.emplace(object.id, std::move(small));
    }
    return ObjectSet(std::move(state));
}

int ObjectSet::fd_of(std::int64_t object) const {
    const auto found = state_->opened.find(object);
    return found == state_->opened.end() ? -1 : found->second.get();
}

Fd ObjectSet::take_launcher(std::int64_t object) {
    const auto found = state_->launchers.find(object);
    return found == state_->launchers.end() ? Fd() : std::move(found->second);
}

// Where an object can be found in the process: at its high number, or, if only the process could open it, at
// its own.
int ObjectSet::descriptor_of(const schema::Process& process, std::int64_t object) const {
    if (const int high = fd_of(object); high >= 0) return high;
    for (const schema::Descriptor& descriptor : process.descriptors)
        if (descriptor.object == object) return descriptor.fd;
    return -1;
}

Result<> ObjectSet::open_processes(const Translate& to_kernel) {
    for (const auto& [id, object] : state_->objects) {
        if (object.type != "pidfd" || fd_of(id) >= 0) continue;
        auto process = open_pidfd(object, to_kernel);
        if (!process) return std::unexpected(std::move(process.error()));
        Fd high(::fcntl(process->get(), F_DUPFD, state_->floor));
        auto* number = state_->later->at(static_cast<std::size_t>(id));
        if (!high || number == nullptr) return fail_errno("pidfd");
        number->store(high.get() + 1);
        state_->opened.insert_or_assign(id, std::move(high));
    }
    // Yama lets a process reach its descendants only; here it is the other way round, see fetch().
    ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    return {};
}

// What the tool has opened since this process was forked, of the same open file description.
Result<Fd> ObjectSet::fetch(std::int64_t object) const {
    const auto* number = state_->later->at(static_cast<std::size_t>(object));
    if (number == nullptr || number->load() == 0) return fail("object {} isn't open in the tool", object);
    const Fd tool(static_cast<int>(::syscall(SYS_pidfd_open, state_->tool, 0)));
    Fd fetched(static_cast<int>(::syscall(SYS_pidfd_getfd, tool.get(), number->load() - 1, 0U)));
    if (!fetched) return fail_errno("pidfd_getfd");
    return fetched;
}

Result<> ObjectSet::install(const schema::Process& process, std::span<const int> keep,
                            const Translate& to_kernel) const {
    std::set<unsigned> open;
    for (const int fd : keep)
        if (fd >= 0) open.insert(static_cast<unsigned>(fd));
    for (const schema::Descriptor& descriptor : process.descriptors) {
        int from = state_->stand_in(descriptor.object, descriptor.fd);
        if (from < 0) from = fd_of(descriptor.object);
        Fd late;
        if (from < 0) {
            const auto object = state_->objects.find(descriptor.object);
            if (object == state_->objects.end())
                return fail_code(ExitCode::damaged, "descriptor {} leads to object {}, which isn't there",
                                 descriptor.fd, descriptor.object);
            auto opened = fetch(object->first);
            if (!opened) opened = open_late(object->second, process, state_->options.access, to_kernel);
            if (!opened)
                return std::unexpected(
                    std::move(opened.error()).in(fmt::format("descriptor {}", descriptor.fd)));
            late = std::move(*opened);
            from = late.get();
        }
        if (from == descriptor.fd) {
            ::fcntl(late.release(), F_SETFD, 0);
        } else if (::dup2(from, descriptor.fd) < 0) {
            return fail_errno("descriptor {}", descriptor.fd);
        }
        open.insert(static_cast<unsigned>(descriptor.fd));
    }
    for (const schema::Descriptor& descriptor : process.descriptors) {
        const auto object = state_->objects.find(descriptor.object);
        if (object == state_->objects.end() || object->second.type != "epoll") continue;
        // What only a process itself can open is added by each who has it, everything else once.
        auto* claim = state_->claimed->at(static_cast<std::size_t>(object->first));
        const bool first = claim == nullptr || !claim->exchange(true);
        const auto find = [&](std::int64_t id) {
            const auto target = state_->objects.find(id);
            const bool late = target != state_->objects.end() && is_late(target->second);
            return first || late ? descriptor_of(process, id) : -1;
        };
        if (auto done = watch(object->second, descriptor.fd, state_->floor, find); !done) return done;
    }
    unsigned next = 0;
    for (const unsigned fd : open) {
        if (fd > next && ::close_range(next, fd - 1, 0) != 0) return fail_errno("close_range");
        next = fd + 1;
    }
    if (::close_range(next, UINT_MAX, 0) != 0) return fail_errno("close_range");
    return {};
}

std::vector<LateDescriptor> ObjectSet::late_descriptors(const schema::Process& process,
                                                        const Translate& to_kernel) const {
    std::vector<LateDescriptor> late;
    for (const schema::Descriptor& descriptor : process.descriptors) {
        const auto found = state_->objects.find(descriptor.object);
        if (found == state_->objects.end() || !is_bound_to_memory(found->second) || found->second.deleted)
            continue;
        const Object& object = found->second;
        late.push_back({descriptor.fd, kernel_path(object.path, to_kernel), reopen_flags(object.flags),
                        object.position, descriptor.close_on_exec});
    }
    return late;
}

std::vector<Notification> ObjectSet::notifications(const schema::Process& process) const {
    std::vector<Notification> all;
    for (const auto& [id, object] : state_->objects) {
        auto found = notification_of(object, process);
        if (!found) continue;
        for (const schema::Descriptor& descriptor : process.descriptors)
            if (const auto other = state_->objects.find(descriptor.object);
                other != state_->objects.end() && queue_of(other->second) == found->queue)
                found->fd = descriptor.fd;
        if (found->fd >= 0) all.push_back(*found);
    }
    return all;
}

Result<> ObjectSet::after_forest(const Translate& to_kernel, const proc::ClockOffsets& ahead,
                                 std::vector<std::string>& notes) {
    std::set<std::int64_t> terminals;
    for (const auto& [id, object] : state_->objects) {
        const int fd = fd_of(id);
        if (fd < 0) continue;
        if (auto done = seal(object, fd, true); !done) return done;
        if (object.type == "timerfd")
            if (auto done = arm_timerfd(object, fd, ahead); !done) return done;
        if (object.owner != 0) {
            f_owner_ex owner{};
            owner.type = static_cast<decltype(owner.type)>(object.owner_type);
            owner.pid = to_kernel ? to_kernel(object.owner) : object.owner;
            // Who had already gone gets nothing.
            if (::fcntl(fd, F_SETOWN_EX, &owner) != 0 && errno != ESRCH)
                return fail_errno("{}: owner {} (F_SETOWN)", object.path, object.owner);
        }
        if (object.owner_signal != 0 && ::fcntl(fd, F_SETSIG, object.owner_signal) != 0)
            return fail_errno("{}: signal {} (F_SETSIG)", object.path, object.owner_signal);
        if ((object.flags & O_ASYNC) && ::fcntl(fd, F_SETFL, object.flags) != 0)
            return fail_errno("{}: O_ASYNC", object.path);
        if (object.kind == ObjectKind::terminal && state_->options.terminal_modes && ::isatty(fd) &&
            terminals.insert(object.pty).second)
            if (auto done = set_up_terminal(object, fd); !done) notes.push_back(done.error().what);
    }
    return {};
}

Result<> ObjectSet::change_files(const ImageReader& image, std::vector<std::string>& notes) {
    for (const auto& [id, file] : state_->refills)
        if (auto done = refill_memory(image, state_->objects.at(id), file.get()); !done) return done;
    for (const Cut& cut : state_->cuts) {
        auto aside = cut_back(cut, state_->options.directory);
        if (!aside) return std::unexpected(std::move(aside.error()));
        if (!aside->empty())
            notes.push_back(fmt::format("{}: what was behind its first {} bytes is kept in {}", cut.path,
                                        cut.size, *aside));
    }
    state_->refills.clear();
    state_->cuts.clear();
    return start_watching();
}

// The processes have everything in place: the last that this tool opens or closes is over before anybody
// watches.
Result<> ObjectSet::start_watching() {
    const auto is_watcher = [&](std::int64_t id) {
        const auto object = state_->objects.find(id);
        return object != state_->objects.end() &&
               (object->second.type == "inotify" || object->second.type == "fanotify");
    };
    const auto is_watched_nameless = [&](std::int64_t id) {
        const auto object = state_->objects.find(id);
        return object != state_->objects.end() && object->second.kind == ObjectKind::file &&
               object->second.deleted;
    };
    if (std::ranges::none_of(state_->opened, [&](const auto& each) { return is_watcher(each.first); }))
        return {};
    std::erase_if(state_->opened, [&](const auto& each) {
        return !is_watcher(each.first) && !is_watched_nameless(each.first);
    });
    for (const auto& [id, fd] : state_->opened) {
        if (!is_watcher(id)) continue;
        const auto find = [this](std::int64_t object) { return fd_of(object); };
        const Object& watcher = state_->objects.at(id);
        auto done = watcher.type == "inotify" ? watch_files(watcher, fd.get(), state_->options, find)
                                              : mark_files(watcher, fd.get(), state_->options, find);
        if (!done) return done;
    }
    return {};
}

int ObjectSet::controlling_terminal(const schema::Process& process) const {
    return process.terminal < 0 ? -1 : fd_of(process.terminal);
}

}  // namespace cairn::restart
